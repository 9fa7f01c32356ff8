package roles

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/consumer/orders"
	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/fault/history"
	"github.com/delaybridge/delaybridge/internal/fault/shop"
	"github.com/delaybridge/delaybridge/internal/sleep"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/producer"
)

// serve is one customer's visit.
func (c *customers) serve(ctx context.Context, o *shop.Order) {
	e := history.Event{Kind: history.Placed, Order: o.ID, Queue: o.Queue(), Also: o.Also(), Detail: string(o.Way) + " " + o.Delay.String()}
	if o.Shares {
		e.ID = o.MessageID()
	}
	if e.Queue == shop.PlainQueue {
		e.Unasked = shop.Lead.Microseconds()
	}
	if !c.place(ctx, o, e) {
		return
	}
	placed := time.Now()
	var besides sync.WaitGroup
	besides.Go(func() { c.changeMind(ctx, o, placed) })
	if o.Looks {
		besides.Go(func() {
			sleep.For(ctx, time.Until(placed.Add(o.LookIn)))
			c.look(ctx, o)
		})
	}
	if o.Pays {
		besides.Go(func() {
			sleep.For(ctx, time.Until(placed.Add(o.PayIn)))
			c.pay(ctx, o)
		})
	}
	if o.Way == shop.WayOutbox { // it is published
		besides.Wait()
		return
	}
	instant := history.After(history.Now(), o.Delay)
	for wait := 100 * time.Millisecond; ctx.Err() == nil; wait = min(2*wait, 2*time.Second) {
		err := c.attempt(ctx, o, instant)
		if err == nil || errors.Is(err, broker.ErrUnconfirmed) && !o.Insists {
			break
		}
		sleep.For(ctx, wait)
	}
	if o.Repeats {
		sleep.For(ctx, o.RepeatIn)
		_ = c.attempt(ctx, o, instant) // which is noted down
	}
	besides.Wait()
}

// place places the order, and notes down that it did. Through the outbox its message is in the same
// transaction: so what may come has to be noted down before.
func (c *customers) place(ctx context.Context, o *shop.Order, placed history.Event) bool {
	if o.Way == shop.WayOutbox {
		c.note(placed)
	}
	for c.tryToPlace(ctx, o) != nil {
		if sleep.For(ctx, 100*time.Millisecond); ctx.Err() != nil {
			return false
		}
	}
	if o.Way != shop.WayOutbox {
		c.note(placed)
	}
	return true
}

func (c *customers) tryToPlace(ctx context.Context, o *shop.Order) error {
	if o.Way != shop.WayOutbox {
		return c.store.Of(o.ID).Place(ctx, o.Order)
	}
	now, box := history.Now(), c.outboxes.Of(o.ID)
	instant := history.After(now, o.Delay)
	when := message.After(o.Delay)
	if box.HasOurClock { // which may be wrong
		when = message.At(instant)
	}
	// Redis has it only when a relay has sent it: a change until then may meet nothing.
	c.note(history.Event{At: now, Kind: history.Publish, Order: o.ID, NotBefore: instant.UnixMicro(), Ahead: RelayedWithin.Microseconds()})
	err := box.Within(ctx, func(ctx context.Context, rows shop.Rows) error {
		if err := c.store.Of(o.ID).Place(ctx, o.Order); err != nil {
			return err
		}
		return rows.Publish(o.Message(), when)
	})
	if err == nil {
		c.note(history.Event{Kind: history.Published, Order: o.ID})
	} else {
		c.note(history.Event{Kind: history.Unknown, Order: o.ID, Detail: err.Error()})
	}
	return err
}

// pay pays the order. Through the outbox its message is cancelled in the same transaction; nobody tells
// what came of that.
func (c *customers) pay(ctx context.Context, o *shop.Order) {
	c.note(history.Event{Kind: history.Pay, Order: o.ID})
	var err error
	if o.Way == shop.WayOutbox {
		c.note(history.Event{Kind: history.Cancel, Order: o.ID})
		err = c.outboxes.Of(o.ID).Within(ctx, func(ctx context.Context, rows shop.Rows) error {
			if err := c.store.Of(o.ID).Pay(ctx, o.ID); err != nil {
				return err
			}
			return rows.Cancel(o.ID)
		})
		c.note(history.Event{Kind: history.CancelUnknown, Order: o.ID})
	} else {
		err = c.store.Of(o.ID).Pay(ctx, o.ID)
	}
	outcome := history.PayUnknown
	switch {
	case err == nil:
		outcome = history.Paid
	case errors.Is(err, orders.ErrClosed):
		outcome = history.PayRefused
	}
	c.note(history.Event{Kind: outcome, Order: o.ID})
}

// attempt publishes the order's message once: always the same one, at an instant or after
// its delay.
func (c *customers) attempt(ctx context.Context, o *shop.Order, instant time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, PublishPatience)
	defer cancel()
	m := o.Message()
	if o.MayTakeAdded() && c.topology.HasEntry(shop.AddedEntry().Name) {
		m.Entry = shop.AddedEntry().Name
	}
	now := history.Now()
	notBefore := instant
	if o.Way != shop.WayInstant && o.Way != shop.WayEntryAt {
		notBefore = history.After(now, o.Delay)
	}
	call := history.Event{At: now, Kind: history.Publish, Order: o.ID, NotBefore: notBefore.UnixMicro()}
	if o.UsesProducer() {
		call.Ahead = time.Now().UnixMicro() - history.Now()
	}
	c.note(call)

	var due int64
	var err error
	cancelled := false
	switch o.Way {
	case shop.WayProducer, shop.WayTracked, shop.WayInstant:
		when := message.After(o.Delay)
		if o.Way == shop.WayInstant {
			when = message.At(instant)
		}
		var receipt producer.Receipt
		from := c.producersFor(o)
		publisher := from.untracked
		if o.Way == shop.WayTracked {
			publisher = from.tracked
		}
		receipt, err = publisher.Publish(ctx, m, when)
		cancelled = errors.Is(err, producer.ErrCancelled)
		if receipt.Path == message.PathParked && !receipt.Past {
			due = receipt.Due.UnixMilli() // by Redis' clock; by this process' own otherwise
		}
	case shop.WayEntry, shop.WayNoID:
		err = c.enter(ctx, &m, wire.HeaderDelay, o.Delay.Milliseconds())
	case shop.WayEntryAt:
		err = c.enter(ctx, &m, wire.HeaderDeliverAt, instant.UnixMilli())
	case shop.WayOutbox: // see tryToPlace
	}
	switch {
	case cancelled:
		c.note(history.Event{Kind: history.Refused, Order: o.ID, Detail: "its ID was cancelled"})
	case err == nil:
		c.note(history.Event{Kind: history.Published, Order: o.ID, Due: due})
	case errors.Is(err, broker.ErrUnconfirmed):
		c.note(history.Event{Kind: history.Unknown, Order: o.ID, Detail: err.Error()})
	default:
		c.note(history.Event{Kind: history.Refused, Order: o.ID, Detail: err.Error()})
	}
	return err
}

// enter publishes to the entry exchange with plain AMQP: mandatory, confirmed.
func (c *customers) enter(ctx context.Context, m *message.Message, header string, value int64) error {
	publisher := c.foreign
	if m.ID == "" {
		// What the broker returns is told from what it takes by the ID, or by the channel.
		publisher = broker.NewPublisher(c.conn)
		defer func() { go publisher.Close() }() // which waits for the broker
	}
	headers := amqp.Table{header: value}
	maps.Copy(headers, m.Headers)
	answer := make(chan error, 1)
	err := publisher.Publish(ctx, broker.Outgoing{
		Exchange: c.topology.EntryExchangeOf(m.Entry), RoutingKey: m.RoutingKey, Mandatory: true,
		Publishing: amqp.Publishing{
			Headers: headers, ContentType: m.ContentType, ContentEncoding: m.ContentEncoding, DeliveryMode: amqp.Persistent,
			Priority: m.Priority, CorrelationId: m.CorrelationID, ReplyTo: m.ReplyTo, MessageId: m.ID,
			Timestamp: m.Timestamp, Type: m.Type, AppId: m.AppID, Body: m.Body,
		},
	}, func(err error) { answer <- err })
	if err != nil {
		return err
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return errors.Join(broker.ErrUnconfirmed, ctx.Err())
	}
}
