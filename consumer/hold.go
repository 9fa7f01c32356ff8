package consumer

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/consumer/internal/outage"
	"github.com/delaybridge/delaybridge/consumer/internal/unsettled"
)

// hold begins to hold a delivery.
func (s *session) hold(d *amqp.Delivery) *unsettled.Delivery {
	h := s.held.Hold(d)
	h.Key = s.keyOf(d)
	return h
}

// keyOf returns what Config.OrderBy says of a message. One over which that panics has
// no order; the handler will meet it.
func (s *session) keyOf(d *amqp.Delivery) (key string) {
	if s.config.OrderBy == nil {
		return ""
	}
	m := s.config.Topology.Message(d)
	defer func() {
		if value := recover(); value != nil {
			s.log.Error("OrderBy panicked; the message is handled without order", "id", m.ID, "value", value)
		}
	}()
	return s.config.OrderBy(m)
}

// letOthersIn handles those that have come to wait for the key, one after the other.
func (s *session) letOthersIn(key string) {
	for key != "" {
		turn, ok := s.order.Leave(key)
		if !ok {
			return
		}
		turn()
	}
}

// takeTurn handles a message that has waited for the one before it.
func (s *session) takeTurn(h *unsettled.Delivery) {
	if s.takeSlot(h) {
		s.handle(h)
	} else {
		_ = s.giveBack(h) // where the channel is lost, the broker has done so
	}
}

// giveUp returns what no handler has begun, and lets go of its keys.
func (s *session) giveUp() []*unsettled.Delivery {
	all := s.held.TakeAll()
	line := s.line
	s.line = nil
	for _, h := range line {
		s.letOthersIn(h.Key) // which were given up, too
	}
	return all
}

// giveBack returns h to its queue, unless the session has.
func (s *session) giveBack(h *unsettled.Delivery) error {
	h.Release()
	if !s.held.Begin(h) {
		return nil
	}
	return h.Nack(false, true)
}

// giveBackInTime returns to the queue all that no handler has begun, in order, once one of
// them has been held for as long as it may. Each message is given back at most once in that
// time. While what must answer before a handler begins is away, nothing is consumed, so
// that an outage costs a message one delivery and not one in each such time.
func (s *session) giveBackInTime(now time.Time) error {
	if !s.held.Overdue(now) {
		return nil
	}
	away := s.noArrivals.Silent(now, s.held.Patience())
	if away == nil {
		away = s.noLedger.Silent(now, s.held.Patience())
	}
	// Not even what is on its way may overtake what returns. But the queue of a single
	// active consumer would be given to another one, beside the handlers at work here.
	stop := s.deliveries != nil && (away != nil || !s.config.SingleActive)
	if stop {
		if err := s.stopConsuming(); err != nil {
			return err
		}
	}
	all := s.giveUp()
	for _, h := range all {
		if err := h.Nack(false, true); err != nil {
			return err
		}
	}
	if away == nil {
		s.log.Warn("gave back messages that no handler could begin in time", "messages", len(all), "consumer_timeout", s.config.ConsumerTimeout)
	}
	switch {
	case !stop:
		return nil
	case away == nil:
		return s.consume()
	}
	s.log.Warn("gave back messages that cannot be handled for now; nothing is consumed until there is an answer", "messages", len(all), "at_most", s.config.ConsumerTimeout)
	s.paused.Store(true)
	s.answered = make(chan struct{})
	go s.awaitAnswer(away, s.answered) // ends with the session
	return nil
}

// awaitAnswer ends the pause when what was away answers. After ConsumerTimeout it does so
// anyway: perhaps only the messages that were given back meet a fault, and others wait
// behind them.
func (s *session) awaitAnswer(away *outage.Outage, answered chan<- struct{}) {
	defer close(answered)
	ctx, cancel := context.WithTimeout(s.alive, s.config.ConsumerTimeout)
	defer cancel()
	away.Await(ctx, s.log)
}

// resume ends the pause.
func (s *session) resume() error {
	s.answered = nil
	s.paused.Store(false)
	return s.consume()
}

// stopConsuming has the broker send nothing more, and takes what is on its way.
func (s *session) stopConsuming() error {
	last := s.deliveries
	s.deliveries = nil
	if err := s.ch.Cancel(s.tag, false); err != nil {
		return err
	}
	for d := range last {
		s.admit(d)
	}
	return nil
}
