package consumer

import (
	"context"
	"errors"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/consumer/internal/once"
	"github.com/delaybridge/delaybridge/consumer/internal/outage"
	"github.com/delaybridge/delaybridge/consumer/internal/spans"
	"github.com/delaybridge/delaybridge/consumer/internal/unsettled"
	"github.com/delaybridge/delaybridge/consumer/ledger"
	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/message"
)

// maxLedgerPause is the longest pause between two questions to a ledger that cannot be
// reached, and so how late its return is noticed.
const maxLedgerPause = 10 * time.Second

// handle sees one delivery through until the consumer is done with it. It is
// called with a slot taken, for the first attempt.
func (s *session) handle(h *unsettled.Delivery) {
	defer h.Release()
	o := Observation{Message: s.received(h.Delivery)}
	o.Lateness = lateness(&o.Message, time.Now())
	o.Attempts = s.attemptsOf(&o.Message)
	if reason := broker.Undecodable(h.Delivery); reason != "" {
		<-s.slots
		s.setAside(h, &o, reason)
		return
	}
	span := spans.StartDelivery(s.tracer, s.config.Queue, h.Delivery, &o.Message, o.Lateness)
	if o.Attempts == 0 { // otherwise it was delivered already
		o.Outcome = s.arrive(h, &o)
	}
	if o.Outcome == Dropped && !s.held.Begin(h) {
		o.Outcome = Returned
	}
	if o.Outcome != "" {
		<-s.slots
	}
	wait := s.noLedger.NewWait(maxLedgerPause, func(ctx context.Context) error { return s.ledger.Ask(ctx, o.Message.ID) })
	defer wait.Gone()
	handled := false
	for o.Outcome == "" {
		if !s.held.Begin(h) {
			<-s.slots
			o.Outcome = Returned
			break
		}
		o.Attempts++
		o.Err = s.attempt(&o, span)
		if errors.Is(o.Err, once.ErrDuplicate) {
			wait.Over(s.log)
			o.Outcome, o.Err = Duplicate, nil
			break
		}
		if notBegun, ok := errors.AsType[*once.NotBegunError](o.Err); ok {
			o.Attempts--
			if !handled {
				s.held.Add(h)
			}
			o.Outcome = s.awaitLedger(h, wait, o.Message.ID, notBegun)
			continue
		}
		handled = true
		wait.Over(s.log)
		if o.Err == nil {
			o.Outcome = Acknowledged
			break
		}
		s.held.Extend(h)
		o.failed = time.Now()
		o.Message.Journey.Failed(s.config.Queue, o.failed, o.Err)
		o.Message.Journey.Step = span.Step()
		switch pause, again := s.pause(h, &o); {
		case !again:
			o.Outcome = s.quarantine(h, &o)
		case s.config.Delayer != nil:
			o.RetryAt = o.failed.Add(pause)
			o.Outcome = s.delay(span.Within(h.Wanted), h, &o)
		case !s.idle(h, pause) || !s.takeSlot(h):
			o.Outcome = Returned
		}
	}
	s.report(&o)
	s.settle(h, &o)
	span.End(string(o.Outcome), o.failure())
}

// received returns the message of d. Who has handled it before counts where it comes back: a producer may
// have sent on the headers of what it had consumed.
func (s *session) received(d *amqp.Delivery) message.Message {
	t := s.config.Topology
	m := t.Message(d)
	if d.Exchange != t.RetryExchange() && d.Exchange != t.Quarantine() {
		m.Journey.Queue, m.Journey.Attempts, m.Journey.History = "", 0, nil
	}
	return m
}

// attemptsOf returns how often m was handled in this queue before. What a crash has cut
// short does not count: only the broker knows of it, and each version counts differently.
func (s *session) attemptsOf(m *message.Message) int {
	if m.Journey.Queue != s.config.Queue {
		return 0
	}
	return m.Journey.Attempts
}

// attempt calls the handler and gives the slot back.
func (s *session) attempt(o *Observation, span spans.Delivery) error {
	defer func() { <-s.slots }()
	ctx, handled := span.StartHandling(s.work, &o.Message, o.Attempts)
	err := call(ctx, s.config.Handler, o.Message)
	if errors.Is(err, once.ErrDuplicate) {
		handled(string(Duplicate), nil)
	} else {
		handled("", err)
	}
	return err
}

// settle tells the observer first, so that it may end Run before the next
// message comes. An acknowledgement that gets lost with its channel makes a
// duplicate, as at-least-once delivery allows.
func (s *session) settle(h *unsettled.Delivery, o *Observation) {
	s.config.Observe(*o)
	var err error
	if o.Outcome == Returned {
		err = s.giveBack(h)
	} else {
		err = s.acks.Ack(h)
	}
	if err != nil {
		s.log.Debug("the message will be delivered again, because its channel was lost", "id", o.Message.ID, "error", err)
	}
}

// awaitLedger waits before the ledger is asked again, without a slot, and takes one. It
// returns Returned when it is no longer this consumer that will handle the message, or "".
func (s *session) awaitLedger(h *unsettled.Delivery, w *outage.Wait, id string, why *once.NotBegunError) Outcome {
	var pause time.Duration
	if errors.Is(why, ledger.ErrBusy) {
		pause = w.Busy(s.log, id, why)
	} else {
		pause = w.Failed(s.log, id, why)
	}
	if !s.idle(h, pause) || !s.takeSlot(h) {
		return Returned
	}
	return ""
}

// idle waits for d, and returns false when it is no longer this consumer that will
// handle the message.
func (s *session) idle(h *unsettled.Delivery, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.intake.Done():
		return false
	case <-h.Wanted.Done():
		return false
	}
}

// takeSlot waits for its turn to call the handler, and returns false likewise.
func (s *session) takeSlot(h *unsettled.Delivery) bool {
	select {
	case s.slots <- struct{}{}:
	case <-s.intake.Done():
		return false
	case <-h.Wanted.Done():
		return false
	}
	if s.intake.Err() != nil || h.Wanted.Err() != nil { // both were possible
		<-s.slots
		return false
	}
	return true
}
