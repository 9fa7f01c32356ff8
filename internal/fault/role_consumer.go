package fault

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/consumer/orders"
	"github.com/delaybridge/delaybridge/consumer/orders/sqlite"
	"github.com/delaybridge/delaybridge/internal/fault/history"
	"github.com/delaybridge/delaybridge/message"
)

// The consumer's steps.
const (
	stepReceived     = "received"
	stepEffect       = "effect done"
	stepAcknowledged = "acknowledged"
)

// consumer closes unpaid orders.
func (p *player) consumer(ctx context.Context) error {
	store, err := sqlite.Open(ctx, p.database())
	if err != nil {
		return err
	}
	defer func() { _ = store.Shutdown() }()
	closer := &orders.Closer{Store: store, Closed: func(m message.Message, outcome orders.Outcome) {
		p.step(stepEffect)
		p.note(history.Event{Kind: history.Effect, Order: m.ID, Detail: string(outcome)})
	}}
	c, err := consumer.New(consumer.Config{
		URL: p.AMQP, Topology: p.topology, Queue: queue, Bind: []string{keyPrefix + "a", keyPrefix + "b"},
		Handler: consumer.HandlerFunc(func(ctx context.Context, m message.Message) error {
			p.received(m)
			return closer.Handle(ctx, m)
		}),
		// A store that somebody stopped holds up is no reason to give an order up.
		MaxAttempts: 1000, AssertEvery: repairEvery, Logger: p.log,
		Observe: func(o consumer.Observation) {
			if o.Outcome == consumer.Acknowledged {
				p.note(history.Event{Kind: history.Acknowledged, Order: o.Message.ID})
				// The acknowledgement follows this call.
				time.AfterFunc(time.Millisecond, func() { p.step(stepAcknowledged) })
			}
		},
	})
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

func (p *player) received(m message.Message) {
	e := history.Event{At: history.Now(), Kind: history.Received, Order: m.ID}
	// On other paths the due time is by the clock of the publisher, which may be wrong.
	if strings.HasPrefix(string(m.Journey.Path), string(message.PathParked)) {
		e.Due = m.Journey.Due.UnixMilli()
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(m.ID, "o-")); err == nil {
		o := planOrder(p.Seed, n)
		e.Intact = intact(&o, m)
	}
	if !e.Intact {
		p.log.Error("not what was sent", "message", m)
	}
	p.note(e)
	p.step(stepReceived)
}
