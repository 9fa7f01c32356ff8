package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delaybridge/delaybridge/internal/usage"
)

// The load, the same for all.
const (
	bodyBytes = 256
	// Delays of the steady load, and the one of those that take only one.
	shortest, longest, middle = 2 * time.Second, 12 * time.Second, 7 * time.Second
	// publishers is how many calls are under way at once in a burst.
	publishers = 512
	// A burst must have been published before the first message of it is due.
	// No lead is a tier of the bridge's, nor is any delay that remains meanwhile.
	slowestPublish = 2_000 // per second
	shortestLead   = 9 * time.Second
	// warmUp is of connections, caches and just-in-time compilers.
	warmUp      = 1_000
	warmUpRate  = 500 // per second
	warmUpDelay = time.Second
	// settle is how long allocators get before memory is read.
	settle = 2 * time.Second
)

// settings come from the command line.
type settings struct {
	rate, burst int
	steady      time.Duration
	patience    time.Duration
	tries       int           // of a load that is disturbed
	quiet       time.Duration // to wait before each
}

// measured is what one load has shown.
type measured struct {
	outcome
	published float64            // per second
	failed    int                // calls of publish that returned an error
	err       error              // of one of them
	patience  time.Duration      // after which it was cut off, or 0
	processor map[string]float64 // seconds, by process
	disturbed float64            // the share of the machine that others used
	memory    map[string]float64 // bytes per waiting message, by server
}

// trial is a contender under one load, with servers of its own.
type trial struct {
	contender contender
	settings  settings
	oneDelay  bool
	ledger    atomic.Pointer[ledger]
}

// run starts and warms up the contender, applies the load and stops it all.
func (c candidate) run(ctx context.Context, s settings, load func(*trial, context.Context) (measured, error)) (m measured, err error) {
	t := &trial{contender: c.make(), settings: s, oneDelay: c.oneDelay}
	defer func() { err = errors.Join(err, t.contender.stop()) }()
	err = t.contender.start(ctx, func(body []byte) {
		if l := t.ledger.Load(); l != nil {
			l.note(body)
		}
	})
	if err != nil {
		return m, fmt.Errorf("start: %w", err)
	}
	warm, err := t.apply(ctx, &plan{
		messages: warmUp, per: time.Second / warmUpRate,
		delay:   func(int, time.Duration) time.Duration { return t.between(warmUpDelay, 2*warmUpDelay, warmUpDelay) },
		longest: 2 * warmUpDelay,
	})
	if err == nil && warm.delivered < warm.messages {
		err = fmt.Errorf("%d of %d delivered: %w", warm.delivered, warm.messages, errors.Join(warm.err, errors.New("cut off")))
	}
	if err != nil {
		return m, fmt.Errorf("warm-up: %w", err)
	}
	return load(t, ctx)
}

// between is a random delay in whole milliseconds, or always the one.
func (t *trial) between(shortest, longest, one time.Duration) time.Duration {
	if t.oneDelay {
		return one
	}
	return shortest + rand.N(longest-shortest).Truncate(time.Millisecond)
}

// steady publishes at a rate, with delays of any length.
func (t *trial) steady(ctx context.Context) (measured, error) {
	per := time.Second / time.Duration(t.settings.rate)
	return t.apply(ctx, &plan{
		messages: int(t.settings.steady / per), per: per,
		delay:   func(int, time.Duration) time.Duration { return t.between(shortest, longest, middle) },
		longest: longest,
	})
}

// burst publishes as fast as it goes what becomes due within one second: in
// any order or, for those that take only one delay, in the order of due times.
func (t *trial) burst(ctx context.Context) (measured, error) {
	lead := max(shortestLead, time.Duration(t.settings.burst)*time.Second/slowestPublish-time.Second)
	return t.apply(ctx, &plan{
		messages: t.settings.burst,
		delay: func(i int, gone time.Duration) time.Duration {
			left := lead + t.between(0, time.Second, time.Second*time.Duration(i)/time.Duration(t.settings.burst)) - gone
			return max(left.Truncate(time.Millisecond)+time.Millisecond, time.Millisecond)
		},
		longest: lead + time.Second,
		waiting: lead,
	})
}

// plan is what to publish, and when.
type plan struct {
	messages int
	per      time.Duration // between two messages; 0 is as fast as it goes
	delay    func(i int, gone time.Duration) time.Duration
	longest  time.Duration
	waiting  time.Duration // nothing is due before that, so that memory can be read
}

// apply carries out a plan and waits for all messages, within bounds.
func (t *trial) apply(ctx context.Context, p *plan) (m measured, err error) {
	held, err := t.contender.memory(ctx)
	if err != nil {
		return m, err
	}
	used, err := usage.ProcessorTime()
	if err != nil {
		return m, err
	}
	l := newLedger(rand.Uint32(), p.messages)
	t.ledger.Store(l)

	bound := time.Duration(p.messages)*p.per + p.longest + t.settings.patience
	publishing, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	var faults faults
	publish := func(i int) {
		delay := p.delay(i, time.Since(l.began))
		faults.add(t.contender.publish(publishing, l.body(i, delay), delay))
	}
	if p.per > 0 {
		atRate(ctx, p.messages, p.per, publish)
	} else {
		atOnce(ctx, p.messages, publish)
	}
	took := time.Since(l.began)
	m.published = float64(p.messages) / took.Seconds()
	m.failed, m.err = faults.n, faults.first

	if took+settle < p.waiting {
		time.Sleep(settle)
		now, err := t.contender.memory(ctx)
		if err != nil {
			return m, err
		}
		m.memory = usage.Since(held, now)
		for server := range m.memory {
			m.memory[server] /= float64(p.messages)
		}
	}
	// The last message may have been published just now.
	timer := time.NewTimer(took - time.Since(l.began) + p.longest + t.settings.patience)
	defer timer.Stop()
	select {
	case <-l.done:
	case <-timer.C:
		m.patience = t.settings.patience
	case <-ctx.Done():
		return m, ctx.Err()
	}
	m.outcome = l.read()
	now, err := usage.ProcessorTime()
	m.processor = usage.Since(used, now)
	m.disturbed = share(m.processor, time.Since(l.began))
	return m, err
}

// atRate calls in goroutines, so that a slow call holds up no other.
func atRate(ctx context.Context, n int, per time.Duration, do func(int)) {
	var calls sync.WaitGroup
	began := time.Now()
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		time.Sleep(time.Until(began.Add(time.Duration(i) * per)))
		calls.Go(func() { do(i) })
	}
	calls.Wait()
}

// atOnce calls as fast as it goes.
func atOnce(ctx context.Context, n int, do func(int)) {
	var (
		calls sync.WaitGroup
		next  atomic.Int64
	)
	for range publishers {
		calls.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	calls.Wait()
}

// faults counts errors and keeps the first.
type faults struct {
	sync.Mutex
	n     int
	first error
}

func (f *faults) add(err error) {
	if err == nil {
		return
	}
	f.Lock()
	defer f.Unlock()
	if f.n++; f.first == nil {
		f.first = err
	}
}
