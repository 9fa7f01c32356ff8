package broker

import (
	"errors"
	"fmt"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

// returnBuffer is how many returned messages may wait to be looked at. The
// library drops one that finds no room for five seconds.
const returnBuffer = 1024

// line is one channel, and the messages on it that the broker has not answered.
//
// It waits for the library's DeferredConfirmations rather than listening for
// confirms, because those who listen hear an ack of a message that was refused,
// when the broker says later "all up to N" of those that were not.
type line struct {
	ch    *amqp.Channel
	more  chan struct{} // there is something in sent
	ended chan struct{} // closed once every message has its answer

	mu   sync.Mutex
	sent []sent // in the order of publishing
	over error  // why the channel has ended
}

// sent is a message that waits for its answer.
type sent struct {
	confirm       *amqp.DeferredConfirmation
	exchange, key string
	id            string
	done          func(error)
}

// newLine takes over a channel that confirms.
func newLine(ch *amqp.Channel) *line {
	l := &line{ch: ch, more: make(chan struct{}, 1), ended: make(chan struct{})}
	go l.answer(&answers{
		returns: ch.NotifyReturn(make(chan amqp.Return, returnBuffer)),
		closed:  ch.NotifyClose(make(chan *amqp.Error, 1)),
	})
	return l
}

// errNotWritten means that the channel was closed before the whole message was
// written, so that the broker does not have it.
var errNotWritten = errors.New("broker: the channel is closed")

// send is called by one goroutine at a time.
func (l *line) send(out Outgoing, done func(error)) error {
	confirm, err := l.ch.PublishWithDeferredConfirm(out.Exchange, out.RoutingKey, out.Mandatory, false, out.Publishing)
	if err != nil {
		if errors.Is(err, amqp.ErrClosed) {
			return errNotWritten
		}
		_ = l.ch.Close() // what the broker makes of half a message is anybody's guess
		return fmt.Errorf("%w: %w", ErrUnconfirmed, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		return fmt.Errorf("%w: %w", ErrUnconfirmed, l.over)
	}
	l.sent = append(l.sent, sent{confirm: confirm, exchange: out.Exchange, key: out.RoutingKey, id: out.Publishing.MessageId, done: done})
	select {
	case l.more <- struct{}{}:
	default:
	}
	return nil
}

// answer gives every message its answer, in the order of publishing, until the
// channel has ended.
func (l *line) answer(a *answers) {
	defer close(l.ended)
	var batch []sent
	for over := false; !over; {
		if a.reason == nil {
			select {
			case <-l.more:
			case r, ok := <-a.returns:
				a.hear(r, ok)
			case reason := <-a.closed:
				a.end(reason)
			}
		}
		over = a.reason != nil
		batch = l.take(batch, a.reason)
		for i := range batch {
			batch[i].done(l.outcome(a, &batch[i]))
		}
		clear(batch)
	}
}

// take returns what was sent since the last call, and leaves room for more.
// Once the channel is over, nothing more will come.
func (l *line) take(room []sent, over error) []sent {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.sent
	l.sent, l.over = room[:0], over
	return taken
}

// outcome waits for the broker's answer to s.
func (l *line) outcome(a *answers, s *sent) error {
	for waiting := true; waiting; {
		select {
		case <-s.confirm.Done():
			waiting = false
		case r, ok := <-a.returns:
			a.hear(r, ok)
		}
	}
	if why, ok := a.returnOf(s); ok {
		return fmt.Errorf("exchange %s: %w (%s)", s.exchange, ErrUnroutable, why)
	}
	switch {
	case s.confirm.Acked():
		return nil
	case l.ch.IsClosed(): // which also ends the wait
		if a.reason == nil {
			a.end(<-a.closed)
		}
		return fmt.Errorf("%w: %w", ErrUnconfirmed, a.reason)
	}
	return fmt.Errorf("exchange %s: %w", s.exchange, ErrRefused)
}

// answers is what comes from the broker, apart from confirms.
type answers struct {
	returns  <-chan amqp.Return // nil once closed
	closed   <-chan *amqp.Error
	returned []amqp.Return // whose messages are not known yet, in the order of publishing
	reason   error         // why the channel was closed
}

func (a *answers) hear(r amqp.Return, ok bool) {
	if !ok {
		a.returns = nil
		return
	}
	r.Body = nil // it may be large
	a.returned = append(a.returned, r)
}

// end notes why the channel was closed. Only the broker and the network have a
// reason.
func (a *answers) end(reason *amqp.Error) {
	a.reason = amqp.ErrClosed
	if reason != nil {
		a.reason = Classify(reason)
	}
}

// returnOf reports why the broker has returned s, if it has. A return carries no
// delivery tag, but the broker returns messages in the order of publishing, and
// each one before it confirms it: so it is the next return, or none.
func (a *answers) returnOf(s *sent) (why string, ok bool) {
	for heard := false; !heard; {
		select {
		case r, ok := <-a.returns:
			a.hear(r, ok)
		default:
			heard = true
		}
	}
	if len(a.returned) == 0 {
		return "", false
	}
	r := &a.returned[0]
	if r.MessageId != s.id || r.Exchange != s.exchange || r.RoutingKey != s.key {
		return "", false
	}
	why = r.ReplyText
	a.returned = a.returned[1:]
	return why, true
}
