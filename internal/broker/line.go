package broker

import (
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// returnBuffer is how many returned messages may wait to be looked at. The
// library drops one that finds no room for five seconds.
const returnBuffer = 1024

// line is one channel, and the messages on it that the broker has not answered.
// Each message is answered by its own confirm: a queue that answers nothing holds
// up no message to another queue.
//
// It waits for the library's DeferredConfirmations rather than listening for
// confirms, because those who listen hear confirms in the order of publishing only,
// and an ack of a message that was refused, when the broker says later "all up to N"
// of those that were not.
type line struct {
	ch        *amqp.Channel
	confirmed chan *sent
	ended     chan struct{} // closed once every message has its answer
	silent    func()        // see watch

	mu       sync.Mutex
	open     int     // messages without an answer
	sent     []*sent // in the order of publishing; some of them may be answered
	over     error   // why the channel has ended
	watching bool
}

// sent is a message that waits for its answer.
type sent struct {
	confirm       *amqp.DeferredConfirmation
	exchange, key string
	id            string
	at            time.Time
	done          func(error)
	answered      bool
}

// newLine takes over a channel that confirms. It calls silent, from a goroutine of its
// own, where a message has had no answer for silentAfter, and now and then as long as that
// lasts.
func newLine(ch *amqp.Channel, silent func()) *line {
	l := &line{ch: ch, confirmed: make(chan *sent, 64), ended: make(chan struct{}), silent: silent}
	go l.answer(&answers{
		returns:  ch.NotifyReturn(make(chan amqp.Return, returnBuffer)),
		closed:   ch.NotifyClose(make(chan *amqp.Error, 1)),
		returned: map[returned][]string{},
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
	s := &sent{confirm: confirm, exchange: out.Exchange, key: out.RoutingKey, id: out.Publishing.MessageId, at: time.Now(), done: done}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		return fmt.Errorf("%w: %w", ErrUnconfirmed, l.over)
	}
	l.open++
	l.sent = append(l.sent, s)
	if !l.watching {
		l.watching = true
		time.AfterFunc(silentAfter, l.watch)
	}
	go func() {
		<-confirm.Done() // which the end of the channel closes, too
		l.confirmed <- s
	}()
	return nil
}

// watch calls silent where the oldest message has had no answer for silentAfter. It
// runs only while something waits.
func (l *line) watch() {
	l.mu.Lock()
	waited := time.Since(l.oldest())
	watching := l.open > 0
	l.watching = watching
	l.mu.Unlock()
	switch {
	case !watching:
	case waited < silentAfter:
		time.AfterFunc(silentAfter-waited, l.watch)
	default:
		l.silent()
		time.AfterFunc(openWithin, l.watch)
	}
}

// oldest returns when the oldest message without an answer was sent. l.mu is held.
func (l *line) oldest() time.Time {
	for len(l.sent) > 0 && l.sent[0].answered {
		l.sent[0] = nil
		l.sent = l.sent[1:]
	}
	if len(l.sent) == 0 {
		return time.Now()
	}
	return l.sent[0].at
}

// answer gives every message its answer, until the channel has ended.
func (l *line) answer(a *answers) {
	defer close(l.ended)
	for left := 1; a.reason == nil || left > 0; {
		select {
		case s := <-l.confirmed:
			s.done(l.outcome(a, s))
			left = l.complete(s)
		case r, ok := <-a.returns:
			a.hear(r, ok)
		case reason := <-a.closed:
			left = l.end(a, reason)
		}
	}
}

// end notes why the channel has ended, and returns how many messages are still to get
// their answer. No more can be added.
func (l *line) end(a *answers, reason *amqp.Error) int {
	a.end(reason)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = a.reason
	return l.open
}

// complete notes that s has its answer, and returns how many messages have none.
func (l *line) complete(s *sent) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.answered = true
	l.open--
	l.oldest() // forgets what is answered
	return l.open
}

// outcome is the broker's answer to s, which is there.
func (l *line) outcome(a *answers, s *sent) error {
	if why, ok := a.returnOf(s); ok {
		return fmt.Errorf("exchange %s: %w (%s)", s.exchange, ErrUnroutable, why)
	}
	switch {
	case s.confirm.Acked():
		return nil
	case l.ch.IsClosed():
		if a.reason == nil {
			l.end(a, <-a.closed)
		}
		return fmt.Errorf("%w: %w", ErrUnconfirmed, a.reason)
	}
	return fmt.Errorf("exchange %s: %w", s.exchange, ErrRefused)
}

// answers is what comes from the broker, apart from confirms.
type answers struct {
	returns  <-chan amqp.Return    // nil once closed
	closed   <-chan *amqp.Error    // nil once closed
	returned map[returned][]string // why, of messages that are not known yet, in the order of publishing
	reason   error                 // why the channel was closed
}

// returned is what tells a message that was returned from others.
type returned struct{ exchange, key, id string }

func (a *answers) hear(r amqp.Return, ok bool) {
	if !ok {
		a.returns = nil
		return
	}
	one := returned{r.Exchange, r.RoutingKey, r.MessageId}
	a.returned[one] = append(a.returned[one], r.ReplyText)
}

// end notes why the channel was closed. Only the broker and the network have a
// reason.
func (a *answers) end(reason *amqp.Error) {
	a.closed = nil
	a.reason = amqp.ErrClosed
	if reason != nil {
		a.reason = Classify(reason)
	}
}

// returnOf reports why the broker has returned s, if it has. A return carries no
// delivery tag, but the broker returns each message before it confirms it: so the
// return of one that is confirmed has been heard. Messages that are alike are told
// apart by neither side.
func (a *answers) returnOf(s *sent) (why string, ok bool) {
	for heard := false; !heard; {
		select {
		case r, ok := <-a.returns:
			a.hear(r, ok)
		default:
			heard = true
		}
		if a.returns == nil {
			heard = true
		}
	}
	one := returned{s.exchange, s.key, s.id}
	reasons := a.returned[one]
	switch len(reasons) {
	case 0:
		return "", false
	case 1:
		delete(a.returned, one)
	default:
		a.returned[one] = reasons[1:]
	}
	return reasons[0], true
}
