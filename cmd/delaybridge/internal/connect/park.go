// Package connect opens what commands work on, from the settings of a command line: messages in
// Redis, RabbitMQ over AMQP, and its management API. What it opens for some work, it closes when
// that is done.
package connect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/telemetry"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/redisbridge/metrics"
)

// ParkUse is what watches a park: each may be nil.
type ParkUse struct {
	Service  *telemetry.Service   // has its calls of Redis counted
	Provider trace.TracerProvider // makes spans
	Parks    bool                 // what it parks is to come out of the broker of the settings
}

// OpenPark returns what knows of messages in Redis, and what closes its connections. It
// does no I/O.
func OpenPark(c cli.Config, log *slog.Logger, use ParkUse) (*redisbridge.Park, func(), error) {
	LogRedis(log)
	client, err := redisbridge.NewClient(c.RedisURL)
	if err != nil {
		return nil, nil, err
	}
	if use.Service.Counts() {
		if err := metrics.CountCalls(use.Service.Registry, c.Topology.Prefix(), client); err != nil {
			return nil, nil, errors.Join(err, client.Close())
		}
	}
	of := ""
	if use.Parks {
		of = c.AMQPURL
	}
	park, err := redisbridge.NewPark(redisbridge.ParkConfig{
		Client: client, AMQPURL: of, Topology: c.Topology, Window: c.DedupeWindow, Remember: c.Remember, Tombstones: c.Tombstones,
		Quotas: c.Quotas, WaitReplicas: c.WaitReplicas, TracerProvider: use.Provider,
	})
	if err != nil {
		_ = client.Close()
		return nil, nil, cli.Usage(err)
	}
	return park, func() { _ = client.Close() }, nil
}

// WithPark does work that needs Redis, for a command that only looks and changes.
func WithPark(a *cli.App, work func(*redisbridge.Park, cli.Config) error) error {
	settings, err := a.Settings.Config()
	if err != nil {
		return err
	}
	return UsePark(a, settings, ParkUse{}, work)
}

// WithTracedPark is [WithPark] for a command that changes messages, which their traces show.
func WithTracedPark(ctx context.Context, a *cli.App, command string, work func(*redisbridge.Park, cli.Config) error) error {
	settings, err := a.Settings.Config()
	if err != nil {
		return err
	}
	provider, flush, err := telemetry.OpenTraces(ctx, a, command, a.Logger(settings))
	if err != nil {
		return err
	}
	defer flush()
	return UsePark(a, settings, ParkUse{Provider: provider}, work)
}

// UsePark is [WithPark] for a command that has read its settings.
func UsePark(a *cli.App, settings cli.Config, use ParkUse, work func(*redisbridge.Park, cli.Config) error) error {
	park, closePark, err := OpenPark(settings, a.Logger(settings), use)
	if err != nil {
		return err
	}
	defer closePark()
	return work(park, settings)
}

// redisLog takes what go-redis would write to standard error by itself. What matters of it we
// tell ourselves.
type redisLog struct{ log *slog.Logger }

// LogRedis has go-redis write to log, for the whole process.
func LogRedis(log *slog.Logger) { redis.SetLogger(redisLog{log}) }

func (l redisLog) Printf(_ context.Context, format string, v ...any) {
	l.log.Debug("redis client", "says", fmt.Sprintf(format, v...))
}

// Hopeless reports whether there is no point in asking about another ID.
func Hopeless(err error) bool {
	return errors.Is(err, redisbridge.ErrUnreachable) || errors.Is(err, redisbridge.ErrConfiguration)
}
