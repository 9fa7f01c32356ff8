package redisbridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/health"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store/server"
)

// checkWait is how long Check waits for Redis.
const checkWait = 2 * time.Second

var errNotRunning = errors.New("the bridge is not running")

// Check returns nil while this bridge does its work: it is connected to RabbitMQ and
// Redis, which is its installation's, has found the topology complete, and promotes the shards that are its own. The
// error joins all that is not so, and has lasted for longer than ten seconds, or since the
// start. It asks Redis, for two seconds at most, and no other server.
func (b *Bridge) Check(ctx context.Context) error {
	now := time.Now()
	switch b.phase.Load() {
	case phaseNew, phaseEnded:
		return errNotRunning
	case phaseDraining:
		return errors.New("the bridge is stopping")
	}
	faults := []error{b.checkRedis(ctx, now)}
	for _, conn := range []*broker.Conn{b.conn, b.consume} {
		if err := conn.State().Check(now, health.Grace); err != nil {
			faults = append(faults, err)
			break // the other one has the same fault
		}
	}
	faults = append(faults, b.repairs.Check(now))
	for _, c := range b.conditions.List() {
		if c.Condition == health.Foreign {
			return errors.Join(append(faults, fmt.Errorf("%s: %s", c.Condition.Means(), c.Detail))...) // no shard is worked on
		}
	}
	return errors.Join(append(faults, b.promoter.Check(now)...)...)
}

// phases of a Bridge.
const (
	phaseNew = iota
	phaseRunning
	phaseDraining
	phaseEnded
)

// checkRedis asks Redis. A silent server may keep the client for longer than ctx lasts.
func (b *Bridge) checkRedis(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, checkWait)
	defer cancel()
	answer := make(chan error, 1)
	go func() { answer <- b.config.Client.Ping(ctx).Err() }()
	var err error
	select {
	case err = <-answer:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err == nil {
		b.heard.Store(time.Now().UnixNano())
		return nil
	}
	heard := b.heard.Load()
	silent := now.Sub(time.Unix(0, heard)).Truncate(time.Millisecond)
	switch {
	case heard == 0:
		return fmt.Errorf("no answer from Redis: %w", server.Classify(err))
	case silent < health.Grace:
		return nil
	}
	return fmt.Errorf("no answer from Redis for %v: %w", silent, server.Classify(err))
}

// ConditionState is a condition that lasts.
type ConditionState struct {
	// Condition names it, such as redis_full; docs/metrics.md has all that there are.
	Condition string `json:"condition"`
	// LastsMS is for how long it has lasted, in ms, when it was looked at.
	LastsMS int64  `json:"lasts_ms"`
	Detail  string `json:"detail,omitempty"`
}

func reported(states []health.State, now time.Time) (all []ConditionState) {
	for _, s := range states {
		all = append(all, ConditionState{string(s.Condition), now.Sub(s.Since).Milliseconds(), s.Detail})
	}
	return all
}

// unconfirmedEvery is how often the bridge looks for answers that are missing.
const unconfirmedEvery = 2 * time.Second

// watchAnswers looks for a target that the broker has not answered for, for long.
func (b *Bridge) watchAnswers(ctx context.Context) {
	ticker := time.NewTicker(unconfirmedEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		worst := b.promoter.Longest()
		if l := b.unanswered.Longest(); l.For > worst.For {
			worst = l
		}
		if worst.For >= health.UnconfirmedAfter {
			b.conditions.Begin(health.Unconfirmed, fmt.Sprintf("exchange %q, routing key %q: no answer for %v, of %d messages",
				worst.Exchange, worst.Key, worst.For.Truncate(time.Second), worst.Messages))
		}
	}
}
