package consumer

import (
	"context"
	"time"

	"github.com/delaybridge/delaybridge/consumer/internal/unsettled"
	"github.com/delaybridge/delaybridge/internal/sleep"
	"github.com/delaybridge/delaybridge/message"
)

// Arrivals knows of messages that were cancelled or rescheduled on their way.
type Arrivals interface {
	// Arrive says what is to become of a message that has come, and notes down that it
	// was delivered, where that is its fate. It may be called again for the same message.
	Arrive(ctx context.Context, m *message.Message) (message.Arrival, error)
	// Handled notes down how the handling of a message goes, for those who look it up.
	// It is called unless the first attempt has succeeded, and at most once for each
	// delivery. What it returns as an error is lost.
	Handled(ctx context.Context, m *message.Message, h message.Handling) error
}

// reportTimeout bounds what it takes to note something down that nothing depends on.
const reportTimeout = time.Second

// report has a message's outcome noted down, where there is more to say than that it was
// delivered.
func (s *session) report(o *Observation) {
	tells := o.Outcome == Delayed || o.Outcome == Quarantined || o.Outcome == Acknowledged && o.Attempts > 1
	if s.config.Arrivals == nil || !tells {
		return
	}
	ctx, cancel := context.WithTimeout(s.work, reportTimeout)
	defer cancel()
	h := message.Handling{
		Queue: s.config.Queue, Attempts: o.Attempts, Outcome: string(o.Outcome),
		At: time.Now(), RetryAt: o.RetryAt, History: o.Message.Journey.History,
	}
	if o.Outcome == Delayed {
		h.At = o.failed // before the retry can have come
	}
	if err := s.config.Arrivals.Handled(ctx, &o.Message, h); err != nil {
		s.log.Warn("cannot note down how the handling of a message went", "id", o.Message.ID, "outcome", o.Outcome, "error", err)
	}
}

// arrive asks whether a message is still wanted, for as long as it may be held. It returns
// the outcome of one that is not to be handled, or "".
func (s *session) arrive(h *unsettled.Delivery, o *Observation) Outcome {
	if s.config.Arrivals == nil {
		return ""
	}
	wait := s.noArrivals.NewWait(maxBackoff, func(ctx context.Context) error {
		m := o.Message // which is given back by then; to ask again changes nothing
		_, err := s.config.Arrivals.Arrive(ctx, &m)
		return err
	})
	defer wait.Gone()
	for {
		arrival, err := s.config.Arrivals.Arrive(h.Wanted, &o.Message)
		if err == nil {
			wait.Over(s.log)
		}
		switch {
		case err == nil && arrival.Because() == "":
			return ""
		case err == nil:
			o.Arrival = arrival
			s.log.Info("dropped a message", "id", o.Message.ID, "because", arrival.Because(), "at", arrival.At)
			return Dropped
		case s.intake.Err() != nil || h.Wanted.Err() != nil:
			return Returned
		}
		if !sleep.For(h.Wanted, wait.Failed(s.log, o.Message.ID, err)) {
			return Returned
		}
	}
}
