// Package outage is about what a consumer needs and cannot reach, such as its ledger. Messages
// wait for it, each with pauses of its own. The log says once that the outage begins, and once
// that it has ended.
package outage

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/delaybridge/delaybridge/consumer/ledger"
)

const (
	// minPause is the first pause between two questions, give or take a half.
	minPause = 50 * time.Millisecond
	// maxPause is the longest pause of [Outage.Await].
	maxPause = time.Second
	// askTimeout bounds each of its questions.
	askTimeout = 10 * time.Second
)

// Outage says in the log once that messages wait for something that cannot be reached, and once that
// they no longer do, however many messages wait and however often each of them asks.
type Outage struct {
	Begins, Ends string // what the log says; constants

	mu      sync.Mutex
	since   time.Time // zero while there is none
	waiting int       // messages
	heard   time.Time // the last answer to a message
	ask     Question  // of the last message that began to wait
}

// Question asks once more what a message waits for.
type Question func(ctx context.Context) error

// begin counts one more message that waits.
func (o *Outage) begin(log *slog.Logger, ask Question, id string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting++
	o.ask = ask
	if o.since.IsZero() {
		o.since = time.Now()
		log.Warn(o.Begins, "id", id, "error", err) //nolint:sloglint // consumer.New sets it to a constant
	}
}

// leave counts a message that no longer waits, such as one that has returned to its queue.
func (o *Outage) leave() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting--
}

// answered notes an answer. It ends the outage unless a message still waits, which then
// may have met a fault of its own.
func (o *Outage) answered(log *slog.Logger) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.heard = time.Now()
	if o.waiting == 0 && !o.since.IsZero() {
		log.Info(o.Ends, "after", time.Since(o.since).Round(time.Millisecond)) //nolint:sloglint // likewise
		o.since = time.Time{}
	}
}

// Silent returns the outage where messages wait and none was answered for so long, and
// otherwise nil: then those that wait may have met a fault of their own.
func (o *Outage) Silent(now time.Time, patience time.Duration) *Outage {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.waiting == 0 || now.Sub(o.heard) < patience {
		return nil
	}
	return o
}

// Await asks about the message that began to wait last, until there is an answer, which ends
// the outage, or ctx ends.
func (o *Outage) Await(ctx context.Context, log *slog.Logger) {
	pauses := newPauses(maxPause)
	for ctx.Err() == nil {
		if err := o.askAgain(ctx); err == nil {
			o.answered(log)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(pauses.NextBackOff()):
		}
	}
}

// askAgain returns nil where a message that has waited gets an answer.
func (o *Outage) askAgain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	o.mu.Lock()
	ask := o.ask
	o.mu.Unlock()
	return ask(ctx)
}

// Wait is the waiting of one message for something that cannot be reached.
type Wait struct {
	of     *Outage
	ask    Question
	pauses *backoff.ExponentialBackOff
	counts bool // as one that waits
	told   bool // that another consumer is at the effect
}

// NewWait returns the waiting of a message that has not begun to wait. Its pauses grow up to
// longest. ask may be nil if Await is not called.
func (o *Outage) NewWait(longest time.Duration, ask Question) *Wait {
	return &Wait{of: o, ask: ask, pauses: newPauses(longest)}
}

func newPauses(longest time.Duration) *backoff.ExponentialBackOff {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = minPause, longest
	return pauses
}

// Failed returns how long to wait after err.
func (w *Wait) Failed(log *slog.Logger, id string, err error) time.Duration {
	if !w.counts {
		w.counts = true
		w.of.begin(log, w.ask, id, err)
	}
	return w.pauses.NextBackOff()
}

// Over ends the waiting after an answer.
func (w *Wait) Over(log *slog.Logger) {
	w.Gone()
	w.of.answered(log)
}

// Gone ends the waiting without an answer.
func (w *Wait) Gone() {
	if w.counts {
		w.counts = false
		w.of.leave()
	}
}

// Busy returns how long to wait for another consumer that is at the effect.
func (w *Wait) Busy(log *slog.Logger, id string, err error) time.Duration {
	w.Over(log) // that was an answer
	pause := w.pauses.NextBackOff()
	if busy, ok := errors.AsType[*ledger.BusyError](err); ok {
		pause = busy.Wait
	}
	if !w.told {
		w.told = true
		log.Info("a message waits: another consumer is at its effect", "id", id, "retry_in", pause)
	}
	return pause
}
