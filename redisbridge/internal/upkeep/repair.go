// Package upkeep is what one of the bridges does for all, or each for itself, at the broker:
// it puts back what is deleted from the topology, knows which ready exchanges are there, and
// shows in the list of queues how much is parked.
package upkeep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/health"
	"github.com/delaybridge/delaybridge/internal/sleep"
	"github.com/delaybridge/delaybridge/topology"
)

// repairPause is between two repairs, however much is asked for.
const repairPause = time.Second

// ErrConsumerCancelled means that the broker has cancelled a consumer, as it does when the
// queue is deleted.
var ErrConsumerCancelled = errors.New("the broker has cancelled the consumer")

// RepairConfig of [Repairs].
type RepairConfig struct {
	Topology func() *topology.Topology // as it is to be now
	Conn     *broker.Conn
	Every    time.Duration
	First    func() bool // whether this bridge looks without having been asked
	Worked   func() bool // whether the bridge has worked before
	Logger   *slog.Logger
}

// Repairs puts back what is deleted from the topology: after each connection, when a worker
// meets what is missing, and at regular intervals, since a missing binding of the entry
// exchange, or a missing unrouted queue, causes no error.
type Repairs struct {
	config RepairConfig
	asked  chan struct{}

	mu    sync.Mutex
	cause error // the last ErrMissing since the last repair

	denied bool            // the user lacks a permission, so it is useless to look by oneself
	said   map[string]bool // the faults that were logged since all was well

	verdict verdict
}

// NewRepairs does no I/O.
func NewRepairs(c RepairConfig) *Repairs {
	return &Repairs{config: c, asked: make(chan struct{}, 1), said: map[string]bool{}}
}

// Ask has the topology repaired soon.
func (r *Repairs) Ask() { signal(r.asked) }

// Consider asks if err says that something is missing.
func (r *Repairs) Consider(err error) {
	switch {
	case errors.Is(err, broker.ErrMissing):
		r.mu.Lock()
		r.cause = err
		r.mu.Unlock()
		r.Ask()
	case errors.Is(err, broker.ErrUnroutable), errors.Is(err, ErrConsumerCancelled):
		r.Ask()
	}
}

// Run repairs until ctx ends. It returns an error when a worker of a bridge that has
// never worked has met what is missing and this user may not create.
func (r *Repairs) Run(ctx context.Context) error {
	for {
		timer := time.NewTimer(r.config.Every)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-r.asked:
			timer.Stop()
		case <-timer.C:
			if !r.verdict.bad() && (r.denied || !r.config.First()) {
				continue
			}
		}
		if err := r.repair(ctx); err != nil {
			return err
		}
		sleep.For(ctx, repairPause)
	}
}

func (r *Repairs) repair(ctx context.Context) error {
	r.mu.Lock()
	cause := r.cause
	r.cause = nil
	r.mu.Unlock()
	channels := ChannelsFunc(func() (*amqp.Channel, error) { return r.config.Conn.Channel(ctx) })
	created, err := r.config.Topology().Repair(ctx, channels)
	if len(created) > 0 {
		names := make([]string, len(created))
		for i, c := range created {
			names[i] = c.Kind + " " + c.Name
		}
		r.config.Logger.Warn("put back what was missing in the topology", "created", names)
	}
	if ctx.Err() != nil {
		return nil
	}
	r.verdict.judge(err)
	_, r.denied = errors.AsType[*topology.PermissionError](err)
	if cause != nil && r.denied && !r.config.Worked() && errors.Is(err, topology.ErrIncomplete) {
		return fmt.Errorf("%w; or let the bridge put it in place: %w", cause, err)
	}
	r.say(ctx, err)
	return nil
}

// say logs each fault once, until a repair has found none.
func (r *Repairs) say(ctx context.Context, err error) {
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
		r.config.Logger.Log(ctx, level, "cannot keep the topology in repair", "error", fault)
	}
}

// ChannelsFunc makes a function [topology.Channels].
type ChannelsFunc func() (*amqp.Channel, error)

// Channel calls it.
func (f ChannelsFunc) Channel() (*amqp.Channel, error) { return f() }

// verdict is what the last repair has found of the topology.
type verdict struct {
	mu    sync.Mutex
	known bool
	wrong error
	since time.Time
}

// judge takes what a repair has returned. A fault of the connection says nothing.
func (v *verdict) judge(err error) {
	_, differs := errors.AsType[*topology.MismatchError](err)
	_, denied := errors.AsType[*topology.PermissionError](err)
	bad := differs || errors.Is(err, topology.ErrIncomplete)
	if err != nil && !bad && !denied {
		return
	}
	if !bad { // what may not be compared is there at least
		err = nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.wrong == nil {
		v.since = time.Now()
	}
	v.known, v.wrong = true, err
}

func (v *verdict) bad() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.wrong != nil
}

func (v *verdict) check(now time.Time) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case !v.known:
		return errors.New("the topology is not verified yet")
	case v.wrong != nil && now.Sub(v.since) >= health.Grace:
		return v.wrong
	}
	return nil
}

// Check returns nil while the topology is as it should be, or has not been so for long.
func (r *Repairs) Check(now time.Time) error { return r.verdict.check(now) }

// signal leaves a mark in a channel of capacity 1, unless there is one already.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
