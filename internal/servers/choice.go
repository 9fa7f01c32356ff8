package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/delaybridge/delaybridge/internal/servers/containers"
	"github.com/delaybridge/delaybridge/internal/servers/private"
	"github.com/delaybridge/delaybridge/internal/servers/redisserver"
)

// Environment variables that choose where servers come from.
const (
	// ChoiceVariable holds a [Choice].
	ChoiceVariable = "DELAYBRIDGE_SERVERS"
	// RabbitMQImageVariable names the image of RabbitMQ containers.
	RabbitMQImageVariable = "DELAYBRIDGE_RABBITMQ_IMAGE"
	// RedisImageVariable names the image of Redis containers.
	RedisImageVariable = "DELAYBRIDGE_REDIS_IMAGE"
)

// Images that are used when the environment names no other.
const (
	DefaultRabbitMQImage = "rabbitmq:4-management"
	DefaultRedisImage    = "redis:8"
)

// A Choice says where servers come from.
type Choice string

const (
	// Auto takes containers when an engine and both images are at hand, packages otherwise.
	Auto Choice = "auto"
	// Containers takes images that are at hand; nothing is ever pulled.
	Containers Choice = "containers"
	// Packages takes the distribution's rabbitmq-server and redis-server.
	Packages Choice = "packages"
)

// ErrNoOtherClock is what starting a container with another clock comes to. libfaketime
// changes the clock of Redis as Debian 12 has it; later ones end, or never start, with it.
var ErrNoOtherClock = errors.New("a Redis whose clock is not this machine's runs as a private node alone")

// ErrNoTLS means that containers cannot be started with [Config.TLS].
var ErrNoTLS = errors.New("servers that end TLS run as private nodes alone")

// A Config says what servers to start. The zero value leaves everything to
// this machine and its environment.
type Config struct {
	// Choice defaults to what [ChoiceVariable] says, and that to [Auto].
	Choice Choice
	// RabbitMQImage defaults to what [RabbitMQImageVariable] says, and that to [DefaultRabbitMQImage].
	RabbitMQImage string
	// RedisImage defaults to what [RedisImageVariable] says, and that to [DefaultRedisImage].
	RedisImage string
	// RedisLayout defaults to what [RedisLayoutVariable] says, and that to [Single].
	RedisLayout Layout
	// RabbitMQLayout defaults to what [RabbitMQLayoutVariable] says, and that to [Single].
	RabbitMQLayout Layout
	// RedisAhead is by how much a single Redis' clock is ahead of this machine's, or behind
	// where it is negative. Defaults to 0. It takes [Packages] ([ErrNoOtherClock]).
	RedisAhead time.Duration
	// TLS has Redis, or a single RabbitMQ, take connections over TLS, too. Redis' URLs are then of rediss://,
	// and name no certificates. Defaults to none. It takes [Packages] ([ErrNoTLS]).
	TLS *private.TLS
}

// withDefaults fills in what is not set and rejects what is unknown.
func (c Config) withDefaults() (Config, error) {
	c.Choice = cmp.Or(c.Choice, Choice(os.Getenv(ChoiceVariable)), Auto)
	c.RabbitMQImage = cmp.Or(c.RabbitMQImage, os.Getenv(RabbitMQImageVariable), DefaultRabbitMQImage)
	c.RedisImage = cmp.Or(c.RedisImage, os.Getenv(RedisImageVariable), DefaultRedisImage)
	switch c.Choice {
	case Auto, Containers, Packages:
		return c.withLayouts()
	}
	return c, fmt.Errorf("%s=%q: want %s, %s or %s", ChoiceVariable, c.Choice, Auto, Containers, Packages)
}

// settle replaces Auto by what this machine has, and makes sure that what was
// chosen is there.
func (c Config) settle(ctx context.Context) (Config, error) {
	c, err := c.withDefaults()
	if err != nil {
		return c, err
	}
	if c.Choice != Packages {
		missing := containers.Missing(ctx,
			containers.Image{Name: c.RabbitMQImage, Variable: RabbitMQImageVariable},
			containers.Image{Name: c.RedisImage, Variable: RedisImageVariable})
		if missing == nil || c.Choice == Containers {
			c.Choice = Containers
			switch {
			case c.RedisAhead != 0:
				return c, ErrNoOtherClock
			case c.TLS != nil:
				return c, ErrNoTLS
			}
			return c, missing
		}
		c.Choice = Packages
	}
	if c.RedisAhead != 0 {
		if err := private.Ensure(ctx, redisserver.MissingClockPackages, ""); err != nil {
			return c, err
		}
	}
	return c, ensurePackages(ctx)
}
