package servers

import (
	"context"
	"errors"
	"fmt"

	"github.com/delaybridge/delaybridge/internal/servers/containers"
	"github.com/delaybridge/delaybridge/internal/servers/rabbitmq"
	"github.com/delaybridge/delaybridge/internal/servers/redisserver"
)

// StartComposed is [Start] for people to look at: containers are those of
// compose.yaml, which is looked for in the working directory and above, and has
// one server of each kind. Private nodes are the same in both.
func StartComposed(ctx context.Context, config Config) (*Pair, error) {
	config, err := config.settle(ctx)
	if err != nil {
		return nil, err
	}
	if config.Choice != Containers {
		return Start(ctx, config)
	}
	all, err := containers.Compose(ctx, []string{
		RabbitMQImageVariable + "=" + config.RabbitMQImage,
		RedisImageVariable + "=" + config.RedisImage,
	}, "DELAYBRIDGE_AMQP_PORT", "DELAYBRIDGE_MANAGEMENT_PORT", "DELAYBRIDGE_REDIS_PORT")
	if err != nil {
		return nil, fmt.Errorf("prepare %s: %w", containers.ComposeFile, err)
	}
	rabbit := rabbitmq.New(all.Service("rabbitmq"), "rabbit@rabbitmq", all.Ports[0].Number, all.Ports[1].Number)
	store := redisserver.New(all.Service("redis"), all.Ports[2].Number)
	pair := &Pair{
		RabbitMQ: rabbit, stopRabbitMQ: rabbit.Stop, Redis: redisserver.Alone(store), Choice: Containers, composed: all,
	}
	// One after the other: both would create the network that they share.
	for _, start := range []func(context.Context) error{rabbit.Start, store.Start} {
		if err := start(ctx); err != nil {
			return nil, errors.Join(err, pair.Stop(context.WithoutCancel(ctx)))
		}
	}
	return pair, nil
}
