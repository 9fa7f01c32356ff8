package roles

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/consumer/orders"
	"github.com/delaybridge/delaybridge/internal/fault/history"
	"github.com/delaybridge/delaybridge/internal/fault/shop"
	"github.com/delaybridge/delaybridge/message"
)

// The consumer's steps.
const (
	StepArrived      = "arrival noted"
	StepReceived     = "received"
	StepEffect       = "effect done"
	StepDelayed      = "retry parked"
	StepAcknowledged = "acknowledged"
)

// consumer closes unpaid orders, or sends mails, and fails at times.
func (p *player) consumer(ctx context.Context) error {
	store, err := shop.OpenOrderStores(ctx, p.Stores)
	if err != nil {
		return err
	}
	defer func() { _ = store.Shut() }()
	boxes, err := shop.OpenMailboxes(ctx, p.Stores)
	if err != nil {
		return err
	}
	defer func() { _ = boxes.Shut() }()
	mails := &mails{player: p, boxes: boxes}
	park, closePark, err := p.openPark()
	if err != nil {
		return err
	}
	defer closePark()
	closer := &orders.Closer{Store: store, Closed: func(m message.Message, outcome orders.Outcome) {
		p.step(StepEffect)
		p.note(history.Event{Kind: history.Effect, Order: m.ID, Detail: string(outcome)})
	}}
	desk := &desk{player: p, park: park, asking: map[string][]int64{}}
	config := consumer.Config{
		AMQPURL: p.AMQP, Topology: p.topology, Queue: p.Queue, Bind: p.Bind,
		Handler: p.failing(closer.Handle), Middleware: []func(consumer.Handler) consumer.Handler{desk.receiving},
		Arrivals: desk, Delayer: desk,
		// A store that a stopped process holds up is no reason to give an order up.
		Retry:       consumer.Retry{Base: 300 * time.Millisecond, Factor: 1.5, Cap: 3 * time.Second, Attempts: 1000},
		RepairEvery: shop.RepairEvery, Logger: p.log,
		Observe: func(o consumer.Observation) {
			if o.Outcome == consumer.Acknowledged && string(o.Message.Body) != shop.Greeting {
				p.note(history.Event{Kind: history.Acknowledged, Order: p.names(shop.OrderOf(o.Message.Body))})
				// The acknowledgement follows this call.
				time.AfterFunc(time.Millisecond, func() { p.step(StepAcknowledged) })
			}
		},
	}
	switch p.Queue {
	case shop.StrangersQueue:
		config.Entry, config.Handler, config.Middleware, config.Arrivals = shop.StrangersEntry().Name, consumer.HandlerFunc(p.ignore), nil, park
		config.Observe = func(consumer.Observation) {}
	case shop.PlainQueue:
		config.Arrivals = nil
	case shop.MailQueue:
		config.Handler, config.Ledger = p.failing(mails.send), mails
	}
	c, err := consumer.New(config)
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

// names returns what an order is called in what the consumer writes down.
func (p *player) names(order string) string {
	if p.Queue == shop.MailQueue {
		return history.InQueue(order, shop.MailQueue)
	}
	return order
}

// failing makes a handler of an effect. It fails as planned, and its messages have the ID of
// their order.
func (p *player) failing(effect consumer.HandlerFunc) consumer.HandlerFunc {
	return func(ctx context.Context, m message.Message) error {
		m.ID = shop.OrderOf(m.Body)
		if err := p.fail(&m); err != nil {
			return err
		}
		err := effect(ctx, m)
		if err != nil {
			p.note(history.Event{Kind: history.Failed, Order: p.names(m.ID), Attempt: m.Journey.Attempts, Detail: err.Error()})
		}
		return err
	}
}

// fail fails as planned, or returns nil.
func (p *player) fail(m *message.Message) error {
	n, _ := shop.OrderNumber(m.ID)
	o, attempt := shop.PlanOrder(p.Seed, n), m.Journey.Attempts
	if attempt >= o.Fails {
		if !o.Rejected || p.Queue == shop.MailQueue {
			return nil
		}
		reason := fmt.Errorf("order %s is not to be closed", m.ID)
		p.note(history.Event{Kind: history.Rejected, Order: m.ID, Attempt: attempt, Detail: reason.Error()})
		return consumer.Reject(reason)
	}
	how, wait := shop.PlanFailure(p.Seed, n, attempt)
	e := history.Event{At: history.Now(), Kind: history.Failed, Order: p.names(m.ID), Attempt: attempt, Detail: "as planned"}
	err := errors.New("not this time")
	switch how {
	case shop.FailsPlainly:
	case shop.FailsForNow:
		e.NotBefore = history.After(e.At, wait).UnixMicro()
		err = consumer.RetryAfter(wait, err)
	case shop.FailsInPanic:
		p.note(e)
		panic(err)
	}
	p.note(e)
	return err
}
