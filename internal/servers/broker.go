package servers

import (
	"context"
	"errors"

	"github.com/delaybridge/delaybridge/internal/servers/rabbitmq"
)

// StartRabbitMQ starts a node of its own and returns when it answers. The
// caller owes it a Stop.
func StartRabbitMQ(ctx context.Context, config Config) (*rabbitmq.Node, error) {
	config, err := config.settle(ctx)
	if err != nil {
		return nil, err
	}
	return rabbitmq.Start(ctx, config.rabbitMQ())
}

// StartCluster starts a cluster of its own, on the settings of a single node,
// and returns when every node sees every other one run. The caller owes it a
// Stop.
func StartCluster(ctx context.Context, config Config) (*rabbitmq.Cluster, error) {
	config, err := config.settle(ctx)
	if err != nil {
		return nil, err
	}
	return rabbitmq.StartCluster(ctx, config.rabbitMQ())
}

// StartBroker starts RabbitMQ in the layout that config says. It returns a node
// that runs, and what stops all there is. Of a cluster one node is down by then.
func StartBroker(ctx context.Context, config Config) (*rabbitmq.Node, func(context.Context) error, error) {
	config, err := config.settle(ctx)
	if err != nil {
		return nil, nil, err
	}
	return config.startBroker(ctx)
}

// startBroker starts RabbitMQ as a settled Config says.
func (c Config) startBroker(ctx context.Context) (*rabbitmq.Node, func(context.Context) error, error) {
	if c.RabbitMQLayout == Single {
		r, err := rabbitmq.Start(ctx, c.rabbitMQ())
		if err != nil {
			return nil, nil, err
		}
		return r, r.Stop, nil
	}
	all, err := rabbitmq.StartCluster(ctx, c.rabbitMQ())
	if err != nil {
		return nil, nil, err
	}
	nodes := all.Nodes()
	if err := nodes[len(nodes)-1].Kill(ctx); err != nil {
		return nil, nil, errors.Join(err, all.Stop(context.WithoutCancel(ctx)))
	}
	return nodes[0], all.Stop, nil
}

// rabbitMQ is what a settled Config says of a node.
func (c Config) rabbitMQ() rabbitmq.Config {
	if c.Choice == Containers {
		return rabbitmq.Config{Image: c.RabbitMQImage}
	}
	return rabbitmq.Config{TLS: c.TLS}
}
