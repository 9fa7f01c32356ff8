package consumer

import (
	"errors"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/message"
)

// handle sees one delivery through until the consumer is done with it. It is
// called with a slot taken, for the first attempt.
func (s *session) handle(d *amqp.Delivery) {
	o := Observation{Message: s.received(d)}
	o.Lateness = lateness(&o.Message, time.Now())
	o.Attempts = s.attemptsOf(&o.Message)
	story := s.startDelivery(d, &o)
	if o.Attempts == 0 { // otherwise it was delivered already
		o.Outcome = s.arrive(&o)
	}
	if o.Outcome != "" {
		<-s.slots
	}
	ledger := s.noLedger.newWait(maxOutagePause)
	defer ledger.gone()
	for o.Outcome == "" {
		o.Attempts++
		o.Err = s.attempt(&o, story)
		if errors.Is(o.Err, errDuplicate) {
			ledger.over(s.log)
			o.Outcome, o.Err = Duplicate, nil
			break
		}
		if notBegun, ok := errors.AsType[*notBegunError](o.Err); ok {
			o.Attempts--
			o.Outcome = s.awaitLedger(ledger, o.Message.ID, notBegun)
			continue
		}
		ledger.over(s.log)
		if o.Err == nil {
			o.Outcome = Acknowledged
			break
		}
		o.failed = time.Now()
		o.Message.Journey.Failed(s.config.Queue, o.failed, o.Err)
		o.Message.Journey.Step = story.step()
		switch pause, again := s.pause(&o); {
		case !again:
			o.Outcome = s.quarantine(d, &o)
		case s.config.Delayer != nil:
			o.RetryAt = o.failed.Add(pause)
			o.Outcome = s.delay(story.within(s.alive), d, &o)
		case !s.idle(pause) || !s.takeSlot():
			o.Outcome = Returned
		}
	}
	s.report(&o)
	s.settle(d, &o)
	story.end(&o)
}

// received returns the message of d. Who has handled it before is only believed where
// a bridge says it: a client may have sent on the headers of what it had consumed.
func (s *session) received(d *amqp.Delivery) message.Message {
	m := message.FromDelivery(d)
	t := s.config.Topology
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
func (s *session) attempt(o *Observation, story delivered) error {
	defer func() { <-s.slots }()
	ctx, handled := story.startHandling(s.work, o)
	err := call(ctx, s.config.Handler, o.Message)
	handled(err)
	return err
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
		err = s.acknowledge(d)
	}
	if err != nil {
		s.log.Debug("the message will be delivered again, because its channel was lost", "id", o.Message.ID, "error", err)
	}
}
