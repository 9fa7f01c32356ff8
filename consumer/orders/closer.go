package orders

import (
	"context"
	"errors"

	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/message"
)

// Closer is the [consumer.Handler] that closes unpaid orders. The ID of a
// message is the ID of the order it closes. A message for an order that is not
// known is rejected, since no retry would find it: place orders before
// publishing.
type Closer struct {
	Store Store
	// Closed is told what came of each message, before it is acknowledged.
	// Defaults to nothing.
	Closed func(message.Message, Outcome)
}

// Handle closes the order that m is about.
func (c *Closer) Handle(ctx context.Context, m message.Message) error {
	outcome, err := c.Store.Close(ctx, m.ID)
	if errors.Is(err, ErrUnknown) {
		return consumer.Reject(err)
	}
	if err != nil {
		return err
	}
	if c.Closed != nil {
		c.Closed(m, outcome)
	}
	return nil
}
