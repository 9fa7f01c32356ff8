package redisbridge

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// movesMost bounds how often a command is sent again after MOVED.
	movesMost = 5
	// movesPause is about how long the library takes to ask for the new map.
	movesPause = 20 * time.Millisecond
)

// moves has a cluster's client send a command again where a node answers that
// the keys are elsewhere. Until then the library has got a new map.
type moves struct{}

func (moves) DialHook(next redis.DialHook) redis.DialHook { return next }

func (moves) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (moves) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		for try := 1; try <= movesMost && err != nil && strings.HasPrefix(err.Error(), "MOVED ") && ctx.Err() == nil; try++ {
			pause(ctx, time.Duration(try)*movesPause)
			err = next(ctx, cmd)
		}
		return err
	}
}

// eachServer does something with every server that takes writes.
func eachServer(ctx context.Context, client redis.UniversalClient, do func(context.Context, redis.UniversalClient) error) error {
	if cluster, ok := client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return do(ctx, node) })
	}
	return do(ctx, client)
}
