package broker

import (
	"context"
	"errors"
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

// Publisher publishes over one confirming channel, in the order of the calls,
// and opens another channel when one is lost. It may be used from many
// goroutines.
type Publisher struct {
	conn   *Conn
	pauses bool // see NewSequence

	order sync.Mutex // held while sending, so that the line keeps the order
	line  *line      // guarded by order
}

// NewPublisher returns a publisher over conn. The channel is opened on use.
func NewPublisher(conn *Conn) *Publisher { return &Publisher{conn: conn} }

// NewSequence returns a publisher for messages none of which may overtake one
// that was lost with a channel and is to be published again. After a channel has
// ended, and all done functions of its messages have returned, Publish returns
// ErrNotSent once before it opens another one.
func NewSequence(conn *Conn) *Publisher { return &Publisher{conn: conn, pauses: true} }

// Publish sends one message. It waits for a connection, and while the broker
// blocks publishers, as long as ctx allows.
//
// After a nil error, done is called exactly once, from another goroutine, as soon as the
// broker answers, in whatever order it does: with
// nil when the broker has taken responsibility, or with an error that wraps
// ErrRefused, ErrUnroutable or ErrUnconfirmed. It must not block. After an
// error done is never called; the error wraps ErrNotSent or ErrUnconfirmed.
func (p *Publisher) Publish(ctx context.Context, out Outgoing, done func(error)) error {
	if err := out.Publishing.Headers.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	p.order.Lock()
	defer p.order.Unlock()
	for {
		if err := p.conn.Ready(ctx); err != nil {
			return fmt.Errorf("%w: %w", ErrNotSent, err)
		}
		if p.pauses && p.line != nil && p.line.ch.IsClosed() {
			return p.drop(ctx)
		}
		if p.line == nil || p.line.ch.IsClosed() {
			line, err := p.open(ctx)
			if err != nil {
				return fmt.Errorf("%w: %w", ErrNotSent, err)
			}
			p.line = line
		}
		err := p.line.send(out, done)
		if !errors.Is(err, errNotWritten) {
			return err
		}
		select {
		case <-p.line.ended:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrNotSent, ctx.Err())
		}
	}
}

// drop gives the ended channel up, once all messages on it have their answers.
func (p *Publisher) drop(ctx context.Context) error {
	select {
	case <-p.line.ended:
		p.line = nil
		return fmt.Errorf("%w: the channel was lost", ErrNotSent)
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrNotSent, ctx.Err())
	}
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
	for {
		ch, err := p.conn.Channel(ctx)
		if err != nil {
			return nil, err
		}
		if err := ch.Confirm(false); err == nil {
			return newLine(ch, p.conn.probe), nil
		}
		// The connection ended under us; the next channel is of another one.
	}
}
