package consumer

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/consumer/internal/outage"
)

// RabbitMQ takes back a message that is not acknowledged within its consumer_timeout: it
// closes the channel, or, from 4.3 on, cancels the consumer. Then everything that the
// consumer holds is delivered again, and up to 4.2 that counts towards the queue's delivery
// limit. So a message is given back before, at these shares of the timeout after it was
// delivered.
const (
	// unbegunShare: no handler has begun it. A handler that begins then has the other half.
	unbegunShare = 1.0 / 2
	// retryShare: it waits for its next attempt in the consumer. That begins by then.
	retryShare = 3.0 / 4
	// heldShare: it waits for anything else, such as a place in the quarantine.
	heldShare = 7.0 / 8
	// lookShare is how often to look for what was not begun.
	lookShare = 1.0 / 16
)

// share returns a part of the timeout.
func (c Config) share(part float64) time.Duration {
	return time.Duration(part * float64(c.ConsumerTimeout))
}

// held is a delivery that the consumer has not settled.
type held struct {
	*amqp.Delivery
	key  string // by Config.OrderBy
	came time.Time
	// wanted ends when nothing is to be waited for any more: the message was given back,
	// its channel is lost, or it was held for as long as it may.
	wanted  context.Context
	release context.CancelFunc // ends wanted
	gone    bool               // given back; with holding.mu
}

// holding knows what a session can give back: what no handler has begun.
type holding struct {
	mu      sync.Mutex
	unbegun map[*held]struct{}
}

// hold begins to hold a delivery.
func (s *session) hold(d *amqp.Delivery) *held {
	h := &held{Delivery: d, came: time.Now()}
	h.key = s.keyOf(d)
	h.wanted, h.release = context.WithDeadline(s.alive, h.came.Add(s.config.share(heldShare)))
	s.holding.add(h)
	return h
}

// add has h given back in time.
func (w *holding) add(h *held) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unbegun == nil {
		w.unbegun = map[*held]struct{}{}
	}
	w.unbegun[h] = struct{}{}
}

// begin keeps h from being given back by the session. It returns false where that has
// happened.
func (w *holding) begin(h *held) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.unbegun, h)
	return !h.gone
}

// oldest returns when the oldest that no handler has begun has come, or false.
func (w *holding) oldest() (came time.Time, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for h := range w.unbegun {
		if !ok || h.came.Before(came) {
			came, ok = h.came, true
		}
	}
	return came, ok
}

// takeAll returns what no handler has begun, in the order of the queue. From then on no
// handler begins it.
func (w *holding) takeAll() []*held {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []*held
	for h := range w.unbegun {
		h.gone = true
		h.release()
		all = append(all, h)
	}
	clear(w.unbegun)
	slices.SortFunc(all, func(a, b *held) int { return cmp.Compare(a.DeliveryTag, b.DeliveryTag) })
	return all
}

// extend leaves a message that was handled some time to be settled, however long its
// handler took.
func (s *session) extend(h *held) {
	if least := s.config.share(lookShare); time.Until(h.came.Add(s.config.share(heldShare))) < least {
		h.release()
		h.wanted, h.release = context.WithTimeout(s.alive, least)
	}
}

// giveUp returns what no handler has begun, and lets go of its keys.
func (s *session) giveUp() []*held {
	all := s.holding.takeAll()
	line := s.line
	s.line = nil
	for _, h := range line {
		s.letOthersIn(h.key) // which were given up, too
	}
	return all
}

// giveBack returns h to its queue, unless the session has.
func (s *session) giveBack(h *held) error {
	h.release()
	if !s.holding.begin(h) {
		return nil
	}
	return h.Nack(false, true)
}

// giveBackInTime returns to the queue all that no handler has begun, in order, once one of
// them has been held for as long as it may. Each message is given back at most once in that
// time. While what must answer before a handler begins is away, nothing is consumed, so
// that an outage costs a message one delivery and not one in each such time.
func (s *session) giveBackInTime(now time.Time) error {
	patience := s.config.share(unbegunShare)
	if oldest, ok := s.holding.oldest(); !ok || now.Sub(oldest) < patience-s.config.share(lookShare) {
		return nil
	}
	away := s.noArrivals.Silent(now, patience)
	if away == nil {
		away = s.noLedger.Silent(now, patience)
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
