package servers

import (
	"context"
	"errors"
	"fmt"
)

// redisInside is the port of a server in its container.
const redisInside = 6379

// startRedisContainer runs an image that takes its settings as the official one
// does.
func startRedisContainer(ctx context.Context, image string) (*Redis, error) {
	const settings = "/usr/local/etc/redis/redis.conf"
	inside := fmt.Sprintf("%d/tcp", redisInside)
	b, err := newBox(box{name: "redis", image: image, args: []string{"redis-server", settings}}, inside)
	if err != nil {
		return nil, fmt.Errorf("prepare Redis: %w", err)
	}
	if err := b.ship(settings, "redis.conf", ""); err != nil {
		return nil, errors.Join(err, b.discard(ctx))
	}
	r := newRedis(b, b.ports[inside].number)
	if err := r.startOrDiscard(ctx); err != nil {
		return nil, err
	}
	return r, nil
}
