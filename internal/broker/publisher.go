package broker

import (
	"context"
	"fmt"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Outgoing is one message on its way to an exchange.
type Outgoing struct {
	Exchange   string
	RoutingKey string
	// Mandatory has the broker return the message if the exchange leads to no
	// queue. It means nothing on an exchange with an alternate exchange.
	Mandatory  bool
	Publishing amqp.Publishing
}

// answerBuffer is how many of the broker's answers may wait for their reader.
const answerBuffer = 1024

// Publisher publishes over one confirming channel, in the order of the calls,
// and opens another channel when one is lost. It may be used from many
// goroutines.
type Publisher struct {
	conn *Conn

	order sync.Mutex // held while sending, so that sequence numbers are right
	line  *line      // guarded by order
}

// NewPublisher returns a publisher over conn. The channel is opened on use.
func NewPublisher(conn *Conn) *Publisher { return &Publisher{conn: conn} }

// Publish sends one message. It waits for a connection, and while the broker
// blocks publishers, as long as ctx allows.
//
// After a nil error, done is called exactly once, from another goroutine: with
// nil when the broker has taken responsibility, or with an error that wraps
// ErrRefused, ErrUnroutable or ErrUnconfirmed. It must not block. After an
// error done is never called; the error wraps ErrNotSent or ErrUnconfirmed.
func (p *Publisher) Publish(ctx context.Context, out Outgoing, done func(error)) error {
	if err := p.conn.Ready(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	p.order.Lock()
	defer p.order.Unlock()
	if p.line == nil || p.line.closed() {
		line, err := p.open(ctx)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNotSent, err)
		}
		p.line = line
	}
	return p.line.send(out, done)
}

// Close closes the channel. Messages without an answer end as unconfirmed.
func (p *Publisher) Close() {
	p.order.Lock()
	defer p.order.Unlock()
	if p.line != nil {
		_ = p.line.ch.Close()
		<-p.line.ended
		p.line = nil
	}
}

func (p *Publisher) open(ctx context.Context) (*line, error) {
	ch, err := p.conn.Channel(ctx)
	if err != nil {
		return nil, err
	}
	if err := ch.Confirm(false); err != nil {
		return nil, fmt.Errorf("broker: select confirms: %w", err)
	}
	l := &line{ch: ch, ended: make(chan struct{}), pending: map[uint64]*pending{}}
	// Buffered, because the library drops a notification that finds no room for
	// five seconds, which a stopped process can bring about.
	go l.answer(ch.NotifyReturn(make(chan amqp.Return, answerBuffer)), ch.NotifyPublish(make(chan amqp.Confirmation, answerBuffer)),
		ch.NotifyClose(make(chan *amqp.Error, 1)))
	return l, nil
}

// line is one channel and what is under way on it.
type line struct {
	ch    *amqp.Channel
	ended chan struct{} // closed once every pending message has its answer

	mu      sync.Mutex
	pending map[uint64]*pending // by delivery tag
}

type pending struct {
	exchange, id string
	returned     string // why, where the broker has returned it
	done         func(error)
}

func (l *line) closed() bool {
	select {
	case <-l.ended:
		return true
	default:
		return l.ch.IsClosed()
	}
}

// send is called by one goroutine at a time.
func (l *line) send(out Outgoing, done func(error)) error {
	if err := out.Publishing.Headers.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	tag := l.ch.GetNextPublishSeqNo()
	l.mu.Lock()
	l.pending[tag] = &pending{exchange: out.Exchange, id: out.Publishing.MessageId, done: done}
	l.mu.Unlock()
	err := l.ch.Publish(out.Exchange, out.RoutingKey, out.Mandatory, false, out.Publishing) //nolint:staticcheck // ctx was observed; once begun, a write is not abandoned
	if err == nil {
		return nil
	}
	if l.take(tag) == nil {
		return nil // answer got there first, and has called done
	}
	_ = l.ch.Close() // its sequence numbers are no longer known
	return fmt.Errorf("%w: %w", ErrUnconfirmed, Classify(err))
}

func (l *line) take(tag uint64) *pending {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.pending[tag]
	delete(l.pending, tag)
	return p
}

// answer hands every answer of the broker to the message it belongs to, until
// the channel has ended. The library passes confirms on one by one in the order
// of their tags, and a return before the confirm of the same message.
func (l *line) answer(returns <-chan amqp.Return, confirms <-chan amqp.Confirmation, closed <-chan *amqp.Error) {
	next := uint64(1)
	for c := range confirms {
		l.markReturned(returns)
		for ; next < c.DeliveryTag; next++ {
			if p := l.take(next); p != nil { // the library has dropped its confirm
				p.done(ErrUnconfirmed)
			}
		}
		if p := l.take(c.DeliveryTag); p != nil {
			p.done(p.outcome(c.Ack))
		}
		next = c.DeliveryTag + 1
	}
	// Only a channel that the broker or the network has closed has a reason.
	var reason error = amqp.ErrClosed
	if r, ok := <-closed; ok && r != nil {
		reason = Classify(r)
	}
	l.mu.Lock()
	abandoned := l.pending
	l.pending = map[uint64]*pending{}
	close(l.ended)
	l.mu.Unlock()
	for _, p := range abandoned {
		p.done(fmt.Errorf("%w: %w", ErrUnconfirmed, reason))
	}
}

// markReturned marks the messages that were returned so far. A return has no
// delivery tag: it belongs to the oldest message with its ID and exchange.
func (l *line) markReturned(returns <-chan amqp.Return) {
	for {
		select {
		case r, ok := <-returns:
			if !ok {
				return
			}
			if p := l.oldest(r.Exchange, r.MessageId); p != nil {
				p.returned = r.ReplyText
			}
		default:
			return
		}
	}
}

func (l *line) oldest(exchange, id string) *pending {
	l.mu.Lock()
	defer l.mu.Unlock()
	var first uint64
	for tag, p := range l.pending {
		if p.id == id && p.exchange == exchange && p.returned == "" && (first == 0 || tag < first) {
			first = tag
		}
	}
	return l.pending[first]
}

func (p *pending) outcome(ack bool) error {
	switch {
	case p.returned != "":
		return fmt.Errorf("exchange %s: %w (%s)", p.exchange, ErrUnroutable, p.returned)
	case !ack:
		return fmt.Errorf("exchange %s: %w", p.exchange, ErrRefused)
	}
	return nil
}
