package promote

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/health"
	"github.com/delaybridge/delaybridge/internal/sleep"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store"
)

// outcome is how promoting a message ended.
type outcome struct {
	*store.Parked
	path message.Path
	back bool  // was not published, and goes back into the schedule at promoteAt
	err  error // was published in vain
}

func parkedOf(outcomes []outcome) []*store.Parked {
	all := make([]*store.Parked, len(outcomes))
	for i, o := range outcomes {
		all[i] = o.Parked
	}
	return all
}

// refused reports whether the broker has said no to this message alone.
func (o outcome) refused() bool {
	return errors.Is(o.err, broker.ErrRefused) || errors.Is(o.err, broker.ErrUnroutable)
}

// inflight is what a shard has claimed and not yet settled.
type inflight struct {
	mu     sync.Mutex
	n      int
	ended  []outcome
	failed error

	arrived chan struct{} // something has ended
	freed   chan struct{} // something is settled
}

func newInflight() *inflight {
	return &inflight{arrived: make(chan struct{}, 1), freed: make(chan struct{}, 1)}
}

func (f *inflight) add() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
}

// cancel undoes add.
func (f *inflight) cancel() { f.settled(1) }

// complete takes the outcome of a message that was added. It does not block. Once
// it has returned, fault knows of an error that concerns more than the message.
func (f *inflight) complete(o outcome) {
	f.mu.Lock()
	f.ended = append(f.ended, o)
	if f.failed == nil && o.err != nil && !o.refused() {
		f.failed = o.err
	}
	f.mu.Unlock()
	signal(f.arrived)
}

func (f *inflight) take() []outcome {
	f.mu.Lock()
	defer f.mu.Unlock()
	ended := f.ended
	f.ended = nil
	return ended
}

func (f *inflight) settled(n int) {
	f.mu.Lock()
	f.n -= n
	f.mu.Unlock()
	signal(f.freed)
}

func (f *inflight) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}

// fault returns why messages could not be published since forgive was called.
func (f *inflight) fault() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

func (f *inflight) forgive() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = nil
}

// landed waits until something was settled, at most for d.
func (f *inflight) landed(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-f.freed:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// drain waits until nothing is in flight any more.
func (f *inflight) drain(ctx context.Context) error {
	for f.count() > 0 {
		select {
		case <-f.freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// settleAll settles what the broker has confirmed, and puts the rest back.
func (s *shard) settleAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.inflight.arrived:
		}
		s.p.awaitTick(ctx, tick)
		ended := s.inflight.take()
		var done, back []outcome
		for _, o := range ended {
			switch {
			case o.back:
				back = append(back, o)
			case o.err == nil:
				done = append(done, o)
				if s.poison.forget(o.Key()) {
					s.p.config.Conditions.End(health.Unfit)
				}
				s.p.config.Observe(Confirmed, o.ID, o.path)
			case o.refused():
				s.p.config.Repairs.Consider(o.err)
				s.p.config.Logger.Warn("message cannot be promoted for now", "id", o.ID, "shard", s.name, "error", o.err)
				back = append(back, o)
			default:
				back = append(back, o)
			}
		}
		if s.retryUntilStored(ctx, func() error { return s.p.config.Store.Settle(ctx, s.of, parkedOf(done)) }, len(done)) {
			s.p.config.Stats.Settled(len(done))
			for _, o := range done {
				s.p.config.Observe(Settled, o.ID, o.path)
			}
		}
		if s.retryUntilStored(ctx, func() error { return s.p.config.Store.Postpone(ctx, s.of, s.p.config.Bridge, parkedOf(back)) }, len(back)) {
			signal(s.woken) // the last claim did not see what is in the schedule again
			for _, o := range back {
				s.p.config.Observe(Returned, o.ID, o.path)
			}
		}
		s.inflight.settled(len(ended))
	}
}

// retryUntilStored repeats what Redis does not take for now: a message that the broker
// has, and that is not settled, would be delivered twice. It reports whether
// Redis has taken it in the end.
func (s *shard) retryUntilStored(ctx context.Context, do func() error, n int) bool {
	for n > 0 && ctx.Err() == nil {
		err := do()
		if err == nil {
			return true
		}
		s.p.config.Logger.Warn("cannot settle for now", "shard", s.name, "messages", n, "error", err)
		sleep.For(ctx, retryPause)
	}
	return false
}
