package consumer

import (
	"context"

	"github.com/cenkalti/backoff/v5"

	"github.com/delaybridge/delaybridge/message"
)

// Arrivals knows of messages that were cancelled or rescheduled on their way.
type Arrivals interface {
	// Arrive says what is to become of a message that has come, and notes down that it
	// was delivered, where that is its fate. It may be called again for the same message.
	Arrive(ctx context.Context, m *message.Message) (message.Arrival, error)
}

// arrive asks whether a message is still wanted, for as long as it takes. It returns
// the outcome of one that is not to be handled, or "".
func (s *session) arrive(o *Observation) Outcome {
	if s.config.Arrivals == nil {
		return ""
	}
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = minBackoff, maxBackoff
	for {
		arrival, err := s.config.Arrivals.Arrive(s.work, &o.Message)
		switch {
		case err == nil && arrival.Fate == message.Deliver:
			return ""
		case err == nil:
			o.Arrival = arrival
			s.log.Info("dropped a message", "id", o.Message.ID, "because", arrival.Fate, "at", arrival.At)
			return Dropped
		case s.intake.Err() != nil:
			return Returned
		}
		pause := wait.NextBackOff()
		s.log.Warn("cannot see whether a message was cancelled; it stays unacknowledged", "id", o.Message.ID, "error", err, "retry_in", pause)
		if !sleep(s.alive, pause) {
			return Returned
		}
	}
}
