package servers

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
)

// Environment variables that choose how many servers there are, and how they
// stand together.
const (
	// RedisLayoutVariable holds the [Layout] of Redis.
	RedisLayoutVariable = "DELAYBRIDGE_REDIS_LAYOUT"
	// RabbitMQLayoutVariable holds the [Layout] of RabbitMQ.
	RabbitMQLayoutVariable = "DELAYBRIDGE_RABBITMQ_LAYOUT"
)

// A Layout says how the servers of one kind stand together.
type Layout string

const (
	// Single is one server.
	Single Layout = "single"
	// Clustered is a Redis Cluster of three masters, or three RabbitMQ nodes of
	// which one is down.
	Clustered Layout = "cluster"
	// Watched is a Redis primary and its replica, which three Sentinels watch.
	Watched Layout = "sentinel"
)

// withLayouts fills in the layouts and rejects unknown ones.
func (c Config) withLayouts() (Config, error) {
	c.RedisLayout = cmp.Or(c.RedisLayout, Layout(os.Getenv(RedisLayoutVariable)), Single)
	c.RabbitMQLayout = cmp.Or(c.RabbitMQLayout, Layout(os.Getenv(RabbitMQLayoutVariable)), Single)
	return c, errors.Join(
		c.RedisLayout.oneOf(RedisLayoutVariable, Single, Clustered, Watched),
		c.RabbitMQLayout.oneOf(RabbitMQLayoutVariable, Single, Clustered),
	)
}

func (l Layout) oneOf(variable string, known ...Layout) error {
	if slices.Contains(known, l) {
		return nil
	}
	return fmt.Errorf("%s=%q: want one of %v", variable, l, known)
}
