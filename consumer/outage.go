package consumer

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/delaybridge/delaybridge/consumer/ledger"
)

// maxOutagePause is the longest pause between two questions to a ledger that cannot be
// reached, and so how late its return is noticed.
const maxOutagePause = 10 * time.Second

// outage says once that messages wait for something that cannot be reached, and once that
// they no longer do, however many messages wait and however often each of them asks.
type outage struct {
	begins, ends string // what the log says

	mu      sync.Mutex
	since   time.Time // zero while there is none
	waiting int       // messages
	heard   time.Time // the last answer to a message
	ask     question  // of the last message that began to wait
}

// question asks once more what a message waits for.
type question func(ctx context.Context) error

// begin counts one more message that waits.
func (w *outage) begin(log *slog.Logger, ask question, id string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting++
	w.ask = ask
	if w.since.IsZero() {
		w.since = time.Now()
		log.Warn(w.begins, "id", id, "error", err) //nolint:sloglint // New sets it to a constant
	}
}

// leave counts a message that no longer waits, such as one that has returned to its queue.
func (w *outage) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting--
}

// answered notes an answer. It ends the outage unless a message still waits, which then
// may have met a fault of its own.
func (w *outage) answered(log *slog.Logger) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard = time.Now()
	if w.waiting == 0 && !w.since.IsZero() {
		log.Info(w.ends, "after", time.Since(w.since).Round(time.Millisecond)) //nolint:sloglint // likewise
		w.since = time.Time{}
	}
}

// silent returns the outage where messages wait and none was answered for so long, and
// otherwise nil: then those that wait may have met a fault of their own.
func (w *outage) silent(now time.Time, patience time.Duration) *outage {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting == 0 || now.Sub(w.heard) < patience {
		return nil
	}
	return w
}

// asks returns nil where a message that has waited gets an answer.
func (w *outage) asks(ctx context.Context) error {
	w.mu.Lock()
	ask := w.ask
	w.mu.Unlock()
	return ask(ctx)
}

// wait is the waiting of one message for something that cannot be reached.
type wait struct {
	*outage
	ask    question
	pauses *backoff.ExponentialBackOff
	counts bool // as one that waits
	told   bool // that another consumer is at the effect
}

func (w *outage) newWait(longest time.Duration, ask question) *wait {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = minBackoff, longest
	return &wait{outage: w, ask: ask, pauses: pauses}
}

// failed returns how long to wait after err.
func (w *wait) failed(log *slog.Logger, id string, err error) time.Duration {
	if !w.counts {
		w.counts = true
		w.begin(log, w.ask, id, err)
	}
	return w.pauses.NextBackOff()
}

// over ends the waiting after an answer.
func (w *wait) over(log *slog.Logger) {
	w.gone()
	w.answered(log)
}

// gone ends the waiting without an answer.
func (w *wait) gone() {
	if w.counts {
		w.counts = false
		w.leave()
	}
}

// busy returns how long to wait for another consumer that is at the effect.
func (w *wait) busy(log *slog.Logger, id string, err error) time.Duration {
	w.over(log) // that was an answer
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

// awaitLedger waits before the ledger is asked again, without a slot, and takes one. It
// returns Returned when it is no longer this consumer that will handle the message, or "".
func (s *session) awaitLedger(h *held, w *wait, id string, why *notBegunError) Outcome {
	var pause time.Duration
	if errors.Is(why, ledger.ErrBusy) {
		pause = w.busy(s.log, id, why)
	} else {
		pause = w.failed(s.log, id, why)
	}
	if !s.idle(h, pause) || !s.takeSlot(h) {
		return Returned
	}
	return ""
}

// errOnlyAsked keeps a question to the ledger from leaving a mark.
var errOnlyAsked = errors.New("the ledger was only asked whether it answers")

// askLedger returns nil where the ledger answers about a message.
func (s *session) askLedger(ctx context.Context, id string) error {
	began := false
	_, err := s.config.Ledger.Once(ctx, ledgerKey(s.config.Queue, id), func(context.Context) error {
		began = true
		return errOnlyAsked
	})
	if began || errors.Is(err, ledger.ErrBusy) {
		return nil
	}
	return err
}
