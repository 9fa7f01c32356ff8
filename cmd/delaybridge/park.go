package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/trace"

	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/redisbridge/metrics"
)

// parkUse is what watches a park: each may be nil.
type parkUse struct {
	service  *service             // has its calls of Redis counted
	provider trace.TracerProvider // makes spans
	parks    bool                 // what it parks is to come out of the broker of the settings
}

// openPark returns what knows of messages in Redis, and what closes its connections. It
// does no I/O.
func (a *app) openPark(c config, log *slog.Logger, use parkUse) (*redisbridge.Park, func(), error) {
	redis.SetLogger(redisLog{log})
	client, err := redisbridge.NewClient(c.RedisURL)
	if err != nil {
		return nil, nil, err
	}
	if use.service.counts() {
		if err := metrics.CountCalls(use.service.registry, c.Topology.Prefix(), client); err != nil {
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
		return nil, nil, usage(err)
	}
	return park, func() { _ = client.Close() }, nil
}

// withPark does work that needs Redis, for a command that only looks and changes.
func (a *app) withPark(work func(*redisbridge.Park, config) error) error {
	settings, err := a.settings.config()
	if err != nil {
		return err
	}
	return a.usePark(settings, parkUse{}, work)
}

// withTracedPark is withPark for a command that changes messages, which their traces show.
func (a *app) withTracedPark(ctx context.Context, command string, work func(*redisbridge.Park, config) error) error {
	settings, err := a.settings.config()
	if err != nil {
		return err
	}
	provider, flush, err := a.openTraces(ctx, command, a.logger(settings))
	if err != nil {
		return err
	}
	defer flush()
	return a.usePark(settings, parkUse{provider: provider}, work)
}

func (a *app) usePark(settings config, use parkUse, work func(*redisbridge.Park, config) error) error {
	park, closePark, err := a.openPark(settings, a.logger(settings), use)
	if err != nil {
		return err
	}
	defer closePark()
	return work(park, settings)
}

// entryFlag adds --entry to a command that names messages by their IDs.
func entryFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("entry", "", "the entry that the IDs belong to, one of the setting entries (default: the default one)")
}

// parkOf returns park for the messages of an entry.
func parkOf(park *redisbridge.Park, c config, entry string) (*redisbridge.Park, error) {
	if !c.Topology.HasEntry(entry) {
		return nil, usage(fmt.Errorf("--entry %q is not configured: use one of the setting entries", entry))
	}
	return park.OfEntry(entry), nil
}

// retryRedis is how often a command asks for Redis that needs it to begin.
const retryRedis = 500 * time.Millisecond

// awaitPark returns once Redis answers, and an error after patience.
func awaitPark(ctx context.Context, park *redisbridge.Park, patience time.Duration) error {
	ticker := time.NewTicker(retryRedis)
	defer ticker.Stop()
	for began := time.Now(); ; {
		err := park.Check(ctx)
		if err == nil || errors.Is(err, redisbridge.ErrConfiguration) || time.Since(began) >= patience {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}
