package servers

import (
	"context"
	"errors"
)

// StartBroker starts RabbitMQ in the layout that config says. It returns a node
// that runs, and what stops all there is. Of a cluster one node is down by then.
func StartBroker(ctx context.Context, config Config) (*RabbitMQ, func(context.Context) error, error) {
	config, err := config.settle(ctx)
	if err != nil {
		return nil, nil, err
	}
	return config.startBroker(ctx)
}

// startBroker starts RabbitMQ as a settled Config says.
func (c Config) startBroker(ctx context.Context) (*RabbitMQ, func(context.Context) error, error) {
	if c.RabbitMQLayout == Single {
		r, err := c.startRabbitMQ(ctx)
		if err != nil {
			return nil, nil, err
		}
		return r, r.Stop, nil
	}
	all, err := StartCluster(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	if err := all.nodes[clusterSize-1].Kill(ctx); err != nil {
		return nil, nil, errors.Join(err, all.Stop(context.WithoutCancel(ctx)))
	}
	return all.nodes[0], all.Stop, nil
}
