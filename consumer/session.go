package consumer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/consumer/internal/unsettled"
	"github.com/delaybridge/delaybridge/internal/broker"
)

var errCancelled = errors.New("the broker has cancelled the consumer; was its queue deleted, or a message not acknowledged within consumer_timeout?")

// session is one channel that consumes.
//
// A session that follows one that was cut short is on probation. Each time is one more delivery for
// every message in the prefetch window, until all of them are at their delivery
// limit. On probation a session takes one message at a time, until as many as a window holds were
// harmless: in a network that fails again and again only that one counts, and so it would
// with a message that ended the connection.
type session struct {
	*run
	ch         *amqp.Channel
	probation  bool
	harmless   int // messages that have come
	tag        string
	consumed   int // how often the session has subscribed
	deliveries <-chan amqp.Delivery
	cancelled  <-chan string
	closed     <-chan *amqp.Error
	unknown    chan struct{}   // closed when the queue does not know the session any more
	intake     context.Context // of Run
	alive      context.Context // ends with the channel, or with work

	held     *unsettled.Deliveries // what has come and is not settled
	acks     unsettled.Acks
	line     []*unsettled.Delivery // what waits for a free handler; of dispatch alone
	answered chan struct{}         // closed when a pause is over, nil where there is none; of dispatch alone
	paused   atomic.Bool           // whether the queue is not consumed on purpose
}

// session consumes over one channel until it is lost or ctx ends; in the latter
// case it drains.
func (r *run) session(ctx context.Context, probation bool) error {
	ch, err := r.consuming.Channel(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if ctx.Err() == nil { // otherwise the connection is about to end
			_ = ch.Close()
		}
	}()
	alive, lost := context.WithCancel(r.work)
	defer lost()
	s := &session{
		run: r, ch: ch, probation: probation, intake: ctx, alive: alive, held: unsettled.New(alive, r.config.ConsumerTimeout),
		cancelled: ch.NotifyCancel(make(chan string, 1)),
		closed:    ch.NotifyClose(make(chan *amqp.Error, 1)),
		unknown:   make(chan struct{}),
	}
	if err := s.open(); err != nil {
		return fmt.Errorf("consumer of %q: %w", r.config.Queue, err)
	}
	r.log.Info("consuming", "concurrency", r.config.Concurrency, "prefetch", r.config.Prefetch, "probation", probation)
	r.isReady()
	r.intake.set(true, nil)
	go func() { // ends with the session
		if s.queue.Watch(alive, s.paused.Load) {
			close(s.unknown)
		}
	}()
	return s.dispatch()
}

// open makes sure of what the consumer needs, and begins to consume.
func (s *session) open() error {
	if err := s.queue.Open(s.ch); err != nil {
		return err
	}
	return s.consume()
}

// consume subscribes to the queue.
func (s *session) consume() error {
	prefetch := s.config.Prefetch
	how := "up to " + strconv.Itoa(s.config.Concurrency) + " at a time"
	if s.probation {
		prefetch, how = 1, "one by one for now, since it was cut short"
	}
	if s.consumed++; s.consumed > 1 {
		// A tag is for one consumer. RabbitMQ 3.10 closes the connection with 541 when the
		// tag comes again while messages of its first consumer are not settled.
		how += ", " + strconv.Itoa(s.consumed)
	}
	s.tag = tag(s.config.ConnectionName, how)
	if err := s.ch.Qos(prefetch, 0, false); err != nil {
		return broker.Classify(err)
	}
	deliveries, err := s.ch.Consume(s.config.Queue, s.tag, false, false, false, false, nil)
	s.deliveries = deliveries
	return s.queue.Classify(err)
}

// tag is what the management UI shows of a consumer: who it is, and how it works.
func tag(who, how string) string {
	how = ": " + how
	return strings.ToValidUTF8(who[:min(len(who), maxName-len(how))], "") + how
}

// dispatch hands deliveries over, in order, as handlers become free.
func (s *session) dispatch() (err error) {
	defer func() {
		if err != nil { // the broker takes back everything
			s.giveUp()
		}
	}()
	calm := time.NewTimer(steady)
	defer calm.Stop()
	look := time.NewTicker(s.held.LookEvery())
	defer look.Stop()
	for s.intake.Err() == nil {
		var free chan<- struct{}
		if len(s.line) > 0 {
			free = s.slots
		}
		var err error
		select {
		case <-s.intake.Done():
		case reason := <-s.closed:
			err = closedBecause(reason)
		case <-s.cancelled:
			err = errCancelled
		case <-s.unknown:
			err = errCancelled
		case <-calm.C:
			err = s.endProbation()
		case now := <-look.C:
			err = s.giveBackInTime(now)
		case <-s.answered:
			err = s.resume()
		case free <- struct{}{}:
			s.begin()
		case d, ok := <-s.deliveries:
			if !ok {
				s.deliveries = nil // closed or cancelled says why
				continue
			}
			s.admit(d)
			if s.harmless++; s.harmless == s.config.Prefetch {
				err = s.endProbation()
			}
		}
		if err != nil {
			return err
		}
	}
	return s.finish()
}

// admit has d wait for a free handler, or for the one before it of the same key.
func (s *session) admit(d amqp.Delivery) {
	h := s.hold(&d)
	if h.Key == "" || s.order.Enter(h.Key, func() { s.takeTurn(h) }) {
		s.line = append(s.line, h)
	}
}

// begin gives the first that waits to a handler, for which a slot is taken.
func (s *session) begin() {
	if s.intake.Err() != nil { // both were possible
		<-s.slots
		return
	}
	h := s.line[0]
	s.line = s.line[1:]
	s.handlers.Go(func() {
		s.handle(h)
		s.letOthersIn(h.Key)
	})
}

// endProbation has a session take as many messages as it may.
func (s *session) endProbation() error {
	if !s.probation {
		return nil
	}
	s.probation = false
	if s.deliveries == nil {
		return nil
	}
	if err := s.stopConsuming(); err != nil { // at most one message is on its way
		return err
	}
	return s.consume()
}

// finish ends the intake: what no handler has begun goes back at once, so that
// other consumers need not wait for this one's drain.
func (s *session) finish() error {
	gaveBack := make(chan struct{})
	unbegun := s.giveUp()
	s.background.Go(func() {
		defer close(gaveBack)
		// With the answer, because until then deliveries arrive; beside the drain,
		// because a silent broker gives none before Run hangs up.
		if err := s.ch.Cancel(s.tag, false); err != nil {
			return
		}
		for _, h := range unbegun {
			_ = h.Nack(false, true) // likewise
		}
		if s.deliveries == nil {
			return
		}
		for d := range s.deliveries {
			_ = d.Nack(false, true) // if the channel is lost, the broker does the same
		}
	})
	err := s.drain()
	s.acks.Flush(s.ch, s.config.Queue, gaveBack, &s.background)
	return err
}

func closedBecause(reason *amqp.Error) error {
	if reason == nil {
		return amqp.ErrClosed
	}
	return broker.Classify(reason)
}
