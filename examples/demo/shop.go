package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/consumer/orders"
	"github.com/delaybridge/delaybridge/consumer/orders/sqlite"
	"github.com/delaybridge/delaybridge/internal/sleep"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/producer"
)

const (
	routingKey = "order.unpaid"
	queue      = "closing"
)

// shop places and pays orders, and closes the unpaid ones.
type shop struct {
	store    *sqlite.Store
	producer *producer.Producer
	ledger   *ledger

	mu       sync.Mutex
	outcomes map[string][]orders.Outcome // by message ID, between closing and observing
}

// open has every customer place an order, one after the other, and pay as planned.
func (s *shop) open(ctx context.Context, customers []planned) error {
	if err := s.store.Restock(ctx, sku, pieces(customers)); err != nil {
		return err
	}
	var visits errgroup.Group
	for i, c := range customers {
		visits.Go(func() error {
			if !sleep.For(ctx, time.Duration(i)*between) {
				return ctx.Err()
			}
			return s.serve(ctx, c)
		})
	}
	return visits.Wait()
}

// serve takes one customer's order, and the money.
func (s *shop) serve(ctx context.Context, c planned) error {
	id := c.order.ID
	if err := s.store.Place(ctx, c.order); err != nil {
		return err
	}
	placed := time.Now()
	when := message.After(c.delay)
	if c.absolute {
		when = message.At(placed.Add(c.delay))
	}
	m := message.Message{ID: id, RoutingKey: routingKey, ContentType: "text/plain", Body: fmt.Appendf(nil, "close order %s unless it is paid", id)}
	receipt, err := s.producer.Publish(ctx, m, when)
	if err != nil {
		return err
	}
	parked := receipt.Path == message.PathParked
	s.ledger.wasPlaced(c, placed, receipt.Path, c.messages(!parked))
	if c.twice {
		if _, err := s.producer.Publish(ctx, m, when); err != nil {
			return err
		}
		s.ledger.wasRepeated(id, parked)
	}
	if c.pays == 0 {
		return nil
	}
	if !sleep.For(ctx, time.Until(placed.Add(c.pays))) {
		return ctx.Err()
	}
	switch err := s.store.Pay(ctx, id); {
	case err == nil:
		s.ledger.wasPaid(id)
	case errors.Is(err, orders.ErrClosed):
		s.ledger.wasRefused(id)
	default:
		return err
	}
	return nil
}

// closed notes what came of a message until observe learns how late it was.
func (s *shop) closed(m message.Message, outcome orders.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcomes[m.ID] = append(s.outcomes[m.ID], outcome)
}

func (s *shop) observe(o consumer.Observation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := o.Message.ID
	if o.Outcome != consumer.Acknowledged || len(s.outcomes[id]) == 0 {
		return
	}
	outcome := s.outcomes[id][0]
	s.outcomes[id] = s.outcomes[id][1:]
	s.ledger.wasDelivered(id, delivered{at: o.Message.Journey.Due.Add(o.Lateness), lateness: o.Lateness, outcome: outcome})
}
