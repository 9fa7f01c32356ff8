package roles

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/internal/fault/shop"
	"github.com/delaybridge/delaybridge/producer"
	"github.com/delaybridge/delaybridge/producer/outbox"
)

// The steps of a relay with some rows.
const (
	StepTaken   = "rows taken"
	StepSent    = "rows sent"
	StepRemoved = "rows removed"
)

// relay does what `delaybridge relay` does, for all order stores, and springs traps.
func (p *player) relay(ctx context.Context) error {
	boxes, err := shop.OpenOutboxes(ctx, p.Stores)
	if err != nil {
		return err
	}
	defer func() { _ = boxes.Shut() }()
	park, closePark, err := p.openPark()
	if err != nil {
		return err
	}
	defer closePark()
	publisher, err := producer.New(producer.Config{AMQPURL: p.AMQP, Topology: p.topology, Parker: park, ConnectionName: p.Name, Logger: p.log})
	if err != nil {
		return err
	}
	connected, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	ended := make(chan error, 1)
	go func() { ended <- publisher.Run(connected) }()
	var relays sync.WaitGroup
	for _, box := range boxes.Boxes {
		one, err := outbox.NewRelay(outbox.RelayConfig{
			Store: trapped{box.Store, p}, Publisher: publisher, Park: park, Poll: 200 * time.Millisecond, Timeout: PublishPatience, Logger: p.log,
		})
		if err != nil {
			return err
		}
		relays.Go(func() { _ = one.Run(ctx) }) // which returns nil
	}
	relays.Wait()
	hangUp()
	return errors.Join(<-ended)
}

// trapped is an outbox whose relay may come to its end with rows in its hands.
type trapped struct {
	outbox.Store
	p *player
}

func (t trapped) Take(ctx context.Context, limit int, send func(context.Context, []outbox.Row) []outbox.Sent) (int, error) {
	n, err := t.Store.Take(ctx, limit, func(ctx context.Context, rows []outbox.Row) []outbox.Sent {
		if len(rows) == 0 {
			return send(ctx, rows)
		}
		t.p.step(StepTaken)
		all := send(ctx, rows)
		t.p.step(StepSent)
		return all
	})
	if n > 0 && err == nil {
		t.p.step(StepRemoved)
	}
	return n, err
}
