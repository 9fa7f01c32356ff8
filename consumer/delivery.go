package consumer

import (
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/message"
)

// maxRetryPause bounds the doubling of Config.RetryPause.
const maxRetryPause = time.Minute

// handle sees one delivery through until the consumer is done with it. It is
// called with a slot taken, for the first attempt.
func (s *session) handle(d *amqp.Delivery) {
	o := Observation{Message: message.FromDelivery(d)}
	o.Lateness = lateness(&o.Message, time.Now())
	pauses := backoff.ExponentialBackOff{
		InitialInterval: s.config.RetryPause, MaxInterval: max(maxRetryPause, s.config.RetryPause),
		Multiplier: 2, RandomizationFactor: backoff.DefaultRandomizationFactor,
	}
	for o.Outcome == "" {
		o.Attempts++
		o.Err = s.attempt(o.Message)
		switch pause, again := s.afterwards(&o, &pauses); {
		case o.Err == nil:
			o.Outcome = Acknowledged
		case !again:
			o.Outcome = s.quarantine(d, &o)
		case !s.rest(pause):
			o.Outcome = Returned
		}
	}
	s.settle(d, &o)
}

// attempt calls the handler and gives the slot back.
func (s *session) attempt(m message.Message) error {
	defer func() { <-s.slots }()
	return call(s.work, s.config.Handler, m)
}

// afterwards says whether a message that has failed is handled again, and after
// which pause.
func (s *session) afterwards(o *Observation, pauses backoff.BackOff) (time.Duration, bool) {
	if _, rejected := errors.AsType[*rejection](o.Err); o.Err == nil || rejected || o.Attempts >= s.config.MaxAttempts {
		return 0, false
	}
	pause := pauses.NextBackOff()
	if postponed, ok := errors.AsType[*postponement](o.Err); ok {
		pause = postponed.pause
	}
	s.log.Warn("handling a message failed", "id", o.Message.ID, "attempt", o.Attempts, "error", o.Err, "retry_in", pause)
	return pause, true
}

// rest waits for the pause, without a slot, and takes one again. It returns
// false when it is no longer this consumer that will handle the message.
func (s *session) rest(pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.intake.Done():
		return false
	case <-s.alive.Done():
		return false
	}
	select {
	case s.slots <- struct{}{}:
		return true
	case <-s.intake.Done():
		return false
	case <-s.alive.Done():
		return false
	}
}

// settle tells the observer first, so that it may end Run before the next
// message comes. An acknowledgement that gets lost with its channel makes a
// duplicate, as at-least-once delivery allows.
func (s *session) settle(d *amqp.Delivery, o *Observation) {
	s.config.Observe(*o)
	var err error
	if o.Outcome == Returned {
		err = d.Nack(false, true)
	} else {
		err = d.Ack(false)
	}
	if err != nil {
		s.log.Debug("the message will be delivered again, because its channel was lost", "id", o.Message.ID, "error", err)
	}
}
