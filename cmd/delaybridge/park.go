package main

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

// parkUse is what watches a park: each may be nil.
type parkUse struct {
	service  *telemetry.Service   // has its calls of Redis counted
	provider trace.TracerProvider // makes spans
	parks    bool                 // what it parks is to come out of the broker of the settings
}

// openPark returns what knows of messages in Redis, and what closes its connections. It
// does no I/O.
func openPark(c cli.Config, log *slog.Logger, use parkUse) (*redisbridge.Park, func(), error) {
	logRedis(log)
	client, err := redisbridge.NewClient(c.RedisURL)
	if err != nil {
		return nil, nil, err
	}
	if use.service.Counts() {
		if err := metrics.CountCalls(use.service.Registry, c.Topology.Prefix(), client); err != nil {
			return nil, nil, errors.Join(err, client.Close())
		}
	}
	of := ""
	if use.parks {
		of = c.AMQPURL
	}
	park, err := redisbridge.NewPark(redisbridge.ParkConfig{
		Client: client, AMQPURL: of, Topology: c.Topology, Window: c.DedupeWindow, Remember: c.Remember, Tombstones: c.Tombstones,
		Quotas: c.Quotas, WaitReplicas: c.WaitReplicas, TracerProvider: use.provider,
	})
	if err != nil {
		_ = client.Close()
		return nil, nil, cli.Usage(err)
	}
	return park, func() { _ = client.Close() }, nil
}

// withPark does work that needs Redis, for a command that only looks and changes.
func withPark(a *cli.App, work func(*redisbridge.Park, cli.Config) error) error {
	settings, err := a.Settings.Config()
	if err != nil {
		return err
	}
	return usePark(a, settings, parkUse{}, work)
}

// withTracedPark is withPark for a command that changes messages, which their traces show.
func withTracedPark(ctx context.Context, a *cli.App, command string, work func(*redisbridge.Park, cli.Config) error) error {
	settings, err := a.Settings.Config()
	if err != nil {
		return err
	}
	provider, flush, err := telemetry.OpenTraces(ctx, a, command, a.Logger(settings))
	if err != nil {
		return err
	}
	defer flush()
	return usePark(a, settings, parkUse{provider: provider}, work)
}

func usePark(a *cli.App, settings cli.Config, use parkUse, work func(*redisbridge.Park, cli.Config) error) error {
	park, closePark, err := openPark(settings, a.Logger(settings), use)
	if err != nil {
		return err
	}
	defer closePark()
	return work(park, settings)
}

// redisLog takes what go-redis would write to standard error by itself. What matters of it we
// tell ourselves.
type redisLog struct{ log *slog.Logger }

// logRedis has go-redis write to log, for the whole process.
func logRedis(log *slog.Logger) { redis.SetLogger(redisLog{log}) }

func (l redisLog) Printf(_ context.Context, format string, v ...any) {
	l.log.Debug("redis client", "says", fmt.Sprintf(format, v...))
}

// hopeless reports whether there is no point in asking about another ID.
func hopeless(err error) bool {
	return errors.Is(err, redisbridge.ErrUnreachable) || errors.Is(err, redisbridge.ErrConfiguration)
}
