package servers

import (
	"context"
	"errors"
	"sync"

	"github.com/delaybridge/delaybridge/internal/servers/containers"
	"github.com/delaybridge/delaybridge/internal/servers/rabbitmq"
	"github.com/delaybridge/delaybridge/internal/servers/redisserver"
)

// A Pair is RabbitMQ and Redis.
type Pair struct {
	RabbitMQ *rabbitmq.Node // of a cluster, a node that runs
	Redis    *redisserver.Store
	// Choice is where they came from, never Auto.
	Choice Choice

	stopRabbitMQ func(context.Context) error
	composed     *containers.Composition // nil when each server stands alone
}

// Start starts a pair and returns when both answer. The caller owes it a Stop.
// A pair that cannot be had is an error that says what to do about it.
func Start(ctx context.Context, config Config) (*Pair, error) {
	config, err := config.settle(ctx)
	if err != nil {
		return nil, err
	}
	pair := Pair{Choice: config.Choice}
	var (
		redisErr, amqErr error
		both             sync.WaitGroup
	)
	both.Go(func() { pair.RabbitMQ, pair.stopRabbitMQ, amqErr = config.startBroker(ctx) })
	both.Go(func() { pair.Redis, redisErr = config.startStore(ctx) })
	both.Wait()
	if err := errors.Join(amqErr, redisErr); err != nil {
		return nil, errors.Join(err, pair.Stop(context.WithoutCancel(ctx)))
	}
	return &pair, nil
}

// Stop ends all servers and removes their data.
func (p *Pair) Stop(ctx context.Context) error {
	var errs []error
	if p.stopRabbitMQ != nil {
		errs = append(errs, p.stopRabbitMQ(ctx))
	}
	if p.Redis != nil {
		errs = append(errs, p.Redis.Stop(ctx))
	}
	if p.composed != nil {
		errs = append(errs, p.composed.Discard())
	}
	return errors.Join(errs...)
}
