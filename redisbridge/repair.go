package redisbridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/topology"
)

// repairPause is between two repairs, however much is asked for.
const repairPause = time.Second

// repairs puts back what is deleted from the topology: after each
// connection, when a worker stumbles over it, and every Config.RepairEvery, since
// nobody stumbles over a binding of the entry exchange, or the unrouted queue.
type repairs struct {
	b     *Bridge
	asked chan struct{}

	mu    sync.Mutex
	cause error // the last ErrMissing since the last repair

	denied bool            // the user lacks a permission, so it is useless to look by oneself
	said   map[string]bool // the faults that were logged since all was well

	verdict verdict
}

func newRepairs(b *Bridge) *repairs {
	return &repairs{b: b, asked: make(chan struct{}, 1), said: map[string]bool{}}
}

// ask has the topology repaired soon.
func (r *repairs) ask() { signal(r.asked) }

// consider asks if err says that something is missing.
func (r *repairs) consider(err error) {
	switch {
	case errors.Is(err, broker.ErrMissing):
		r.mu.Lock()
		r.cause = err
		r.mu.Unlock()
		r.ask()
	case errors.Is(err, broker.ErrUnroutable), errors.Is(err, errCancelled):
		r.ask()
	}
}

// run repairs until ctx ends. It returns an error when a worker of a bridge that has
// never worked has met what is missing and this user may not create.
func (r *repairs) run(ctx context.Context) error {
	for {
		timer := time.NewTimer(r.b.config.RepairEvery)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-r.asked:
			timer.Stop()
		case <-timer.C:
			if !r.verdict.bad() && (r.denied || !r.b.register.prefers(0)) {
				continue
			}
		}
		if err := r.repair(ctx); err != nil {
			return err
		}
		pause(ctx, repairPause)
	}
}

func (r *repairs) repair(ctx context.Context) error {
	r.mu.Lock()
	cause := r.cause
	r.cause = nil
	r.mu.Unlock()
	channels := channelsFunc(func() (*amqp.Channel, error) { return r.b.consume.Channel(ctx) })
	created, err := r.b.config.Topology.Repair(ctx, channels)
	if len(created) > 0 {
		names := make([]string, len(created))
		for i, c := range created {
			names[i] = c.Kind + " " + c.Name
		}
		r.b.log.Warn("put back what was missing in the topology", "created", names)
	}
	if ctx.Err() != nil {
		return nil
	}
	r.verdict.judge(err)
	_, r.denied = errors.AsType[*topology.PermissionError](err)
	if cause != nil && r.denied && !r.b.worked.Load() && errors.Is(err, topology.ErrIncomplete) {
		return fmt.Errorf("%w; or let the bridge put it in place: %w", cause, err)
	}
	r.say(ctx, err)
	return nil
}

// say logs each fault once, until a repair has found none.
func (r *repairs) say(ctx context.Context, err error) {
	if err == nil {
		clear(r.said)
		return
	}
	faults := []error{err}
	if joined, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err); ok {
		faults = joined.Unwrap()
	}
	for _, fault := range faults {
		if r.said[fault.Error()] {
			continue
		}
		r.said[fault.Error()] = true
		level := slog.LevelWarn
		if _, mismatch := errors.AsType[*topology.MismatchError](fault); mismatch {
			level = slog.LevelError
		}
		r.b.log.Log(ctx, level, "cannot keep the topology in repair", "error", fault)
	}
}

// channelsFunc makes a function [topology.Channels].
type channelsFunc func() (*amqp.Channel, error)

func (f channelsFunc) Channel() (*amqp.Channel, error) { return f() }
