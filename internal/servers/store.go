package servers

import (
	"context"

	"github.com/delaybridge/delaybridge/internal/servers/redisserver"
)

// StartRedis starts a server of its own and returns when it answers. The caller
// owes it a Stop.
func StartRedis(ctx context.Context, config Config) (*redisserver.Node, error) {
	config, err := config.settle(ctx)
	if err != nil {
		return nil, err
	}
	return redisserver.Start(ctx, config.redis())
}

// StartStore starts Redis in the layout that config says, and returns when it
// takes commands. The caller owes it a Stop.
func StartStore(ctx context.Context, config Config) (*redisserver.Store, error) {
	config, err := config.settle(ctx)
	if err != nil {
		return nil, err
	}
	return config.startStore(ctx)
}

// startStore starts Redis as a settled Config says.
func (c Config) startStore(ctx context.Context) (*redisserver.Store, error) {
	switch c.RedisLayout {
	case Clustered:
		return redisserver.StartCluster(ctx, c.redis())
	case Watched:
		return redisserver.StartWatched(ctx, c.redis())
	case Single:
	}
	r, err := redisserver.Start(ctx, c.redis())
	if err != nil {
		return nil, err
	}
	return redisserver.Alone(r), nil
}

// redis is what a settled Config says of Redis.
func (c Config) redis() redisserver.Config {
	if c.Choice == Containers {
		return redisserver.Config{Image: c.RedisImage}
	}
	return redisserver.Config{Ahead: c.RedisAhead, TLS: c.TLS}
}
