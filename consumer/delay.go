package consumer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/message"
)

// Delayer has a message come back to the queue m.Journey.Queue after d, and to no
// other: by the topology's retry exchange, as m.Retry returns it. It returns nil once
// the message is safe, and only then the consumer acknowledges it. After an error it
// is called again. *redisbridge.Park is one.
type Delayer interface {
	Delay(ctx context.Context, m *message.Message, d time.Duration) error
}

// pause returns how long a message that has failed waits for its next attempt, and
// false where it was the last one. What waits in the consumer must be done with before the
// broker takes it back, which would have its attempts count anew.
func (s *session) pause(h *held, o *Observation) (time.Duration, bool) {
	_, rejected := errors.AsType[*rejection](o.Err)
	_, patient := errors.AsType[*patience](o.Err)
	if rejected || o.Attempts >= s.config.Retry.Attempts && !patient {
		return 0, false
	}
	pause := s.config.Retry.Pause(o.Attempts, rand.Float64()) //nolint:gosec // it keeps no secret
	if postponed, ok := errors.AsType[*postponement](o.Err); ok {
		pause = max(0, postponed.pause)
	}
	if s.config.Delayer == nil {
		left := time.Until(h.came.Add(s.config.share(retryShare)))
		if left <= 0 {
			return 0, false
		}
		pause = min(pause, left)
	}
	s.log.Warn("handling a message failed", "id", o.Message.ID, "attempt", o.Attempts, "error", o.Err, "retry_in", pause)
	return pause, true
}

// delay gives the message to the Delayer, however long it takes that to have it. It
// gives up only when the message was held for as long as it may, has returned to its queue
// anyway, or Run ends.
func (s *session) delay(ctx context.Context, h *held, o *Observation) Outcome {
	m := s.config.Topology.Message(h.Delivery) // as it came, whatever the handler has done
	m.Journey = o.Message.Journey
	wait := s.noDelayer.newWait(maxBackoff, nil)
	defer wait.gone()
	for {
		err := s.config.Delayer.Delay(ctx, &m, max(0, time.Until(o.RetryAt)))
		if err == nil {
			wait.over(s.log)
			return Delayed
		}
		if h.wanted.Err() != nil || !s.idle(h, wait.failed(s.log, m.ID, err)) {
			return Returned
		}
	}
}

// idle waits for d, and returns false when it is no longer this consumer that will
// handle the message.
func (s *session) idle(h *held, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.intake.Done():
		return false
	case <-h.wanted.Done():
		return false
	}
}

// takeSlot waits for its turn to call the handler, and returns false likewise.
func (s *session) takeSlot(h *held) bool {
	select {
	case s.slots <- struct{}{}:
	case <-s.intake.Done():
		return false
	case <-h.wanted.Done():
		return false
	}
	if s.intake.Err() != nil || h.wanted.Err() != nil { // both were possible
		<-s.slots
		return false
	}
	return true
}

// bindForRetries has the queue get what comes back to it, by its name.
func (r *run) bindForRetries(ch *amqp.Channel) error {
	exchange := r.config.Topology.RetryExchange()
	err := r.bind(ch, r.config.Queue, exchange, nil)
	if errors.Is(err, broker.ErrForbidden) {
		return fmt.Errorf("bind the queue to %s for its retries, which takes write permission for the queue and read permission for the exchange: %w", exchange, err)
	}
	return err
}
