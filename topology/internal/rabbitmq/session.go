// Package rabbitmq knows RabbitMQ and nothing of tiers, lanes and entries: it asks
// and changes things over AMQP, reads what the management API shows, and says what
// arguments, policies and refusals mean.
package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// answerWithin is how long a queue may take to answer. One that has a leader takes
// milliseconds.
const answerWithin = time.Second

// ErrSilent means that a queue has not answered within a second, or before its context ended.
var ErrSilent = errors.New("no answer from the queue")

// Channels opens channels. An [amqp.Connection] does.
type Channels interface {
	Channel() (*amqp.Channel, error)
}

// Session keeps a channel open: the broker closes it with each refusal.
type Session struct {
	channels Channels
	ch       *amqp.Channel
}

// NewSession returns a session that opens its channels by channels. It does no I/O.
func NewSession(channels Channels) *Session { return &Session{channels: channels} }

// Do calls operation with an open channel, and returns its error.
func (s *Session) Do(ctx context.Context, operation func(*amqp.Channel) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.ch == nil || s.ch.IsClosed() {
		ch, err := s.channels.Channel()
		if err != nil {
			return fmt.Errorf("open a channel: %w", err)
		}
		s.ch = ch
	}
	return operation(s.ch)
}

// Close closes the channel.
func (s *Session) Close() {
	if s.ch != nil {
		_ = s.ch.Close() // nothing is under way on it
	}
}

// Count returns how many messages of a queue are ready. After [ErrSilent] the session is
// still at it, and must not be used again.
func (s *Session) Count(ctx context.Context, queue string) (int, error) {
	type answer struct {
		n   int
		err error
	}
	heard := make(chan answer, 1)
	go func() {
		var a answer
		a.err = s.Do(ctx, func(ch *amqp.Channel) error {
			q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
			a.n = q.Messages
			return err
		})
		heard <- a
	}()
	timer := time.NewTimer(answerWithin)
	defer timer.Stop()
	select {
	case a := <-heard:
		return a.n, a.err
	case <-timer.C:
	case <-ctx.Done():
	}
	select {
	case a := <-heard:
		return a.n, a.err
	default:
		go func() { // which ends when the queue answers, or with the connection
			<-heard
			s.Close()
		}()
		return 0, ErrSilent
	}
}
