package doctor

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
)

// channels opens channels on a supervised connection.
type channels struct {
	ctx  context.Context //nolint:containedctx // the interface it implements has none
	conn *broker.Conn
}

func (c channels) Channel() (*amqp.Channel, error) { return c.conn.Channel(c.ctx) }
