package topology

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Channels opens channels. An [amqp.Connection] does.
type Channels interface {
	Channel() (*amqp.Channel, error)
}

// session keeps a channel open: the broker closes it with each refusal.
type session struct {
	channels Channels
	ch       *amqp.Channel
}

func (s *session) do(ctx context.Context, operation func(*amqp.Channel) error) error {
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

func (s *session) close() {
	if s.ch != nil {
		_ = s.ch.Close() // nothing is under way on it
	}
}

// answered reports whether err is the broker's refusal with that code.
func answered(err error, code int) bool {
	var refusal *amqp.Error
	return errors.As(err, &refusal) && refusal.Server && refusal.Code == code
}
