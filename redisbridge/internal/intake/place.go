package intake

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/health"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store"
)

// errTooLarge means that no broker takes a message from us, as it is.
var errTooLarge = errors.New("headers too large")

// entry is a message of the inbox.
type entry struct {
	*amqp.Delivery
	id string // its own, or one that is made up
}

// place brings an entry to where it belongs, and returns nil once it is there.
func (i *Intake) place(ctx context.Context, ready *broker.Pool, e *entry) error {
	m := message.FromDelivery(e.Delivery)
	m.Entry = i.config.Topology.EntryOf(e.Exchange) // whatever the headers say
	if m.ID == "" {
		m.ID = e.id
	}
	if _, deadLettered := e.Headers["x-death"]; deadLettered { // tells its rounds apart, and means nothing else
		m.Journey.Due = wire.InstantOf(e.Headers[wire.HeaderDue])
	}
	if n := wire.TableBytes(m.Headers); n > wire.MaxHeaderBytes {
		return fmt.Errorf("%w: %d bytes, more than %d", errTooLarge, n, wire.MaxHeaderBytes)
	}
	when, err := message.WhenFromHeaders(e.Headers, time.Now())
	_, wrong := wire.Group(e.Headers)
	if err = errors.Join(err, wrong); err != nil {
		return counted(&i.counted.quarantined, i.quarantine(ctx, ready, &m, err))
	}
	err = i.deliver(ctx, ready, e, &m, sinceStamp(e.Delivery, when, i.config.BrokerClockWithin, time.Now()), store.Beginning{Asked: when})
	if !errors.Is(err, store.ErrQuota) {
		return err
	}
	i.config.Conditions.Begin(health.Quota, err.Error(), "id", e.id)
	if err = i.quarantine(ctx, ready, &m, err); err == nil {
		i.refused.add(m.Entry)
	}
	return err
}

// quarantine publishes a message there, with the reason.
func (i *Intake) quarantine(ctx context.Context, ready *broker.Pool, m *message.Message, reason error) error {
	publishing := m.Publishing(message.Journey{Path: wire.QuarantinePath})
	publishing.Headers[wire.HeaderError] = reason.Error()
	publishing.Headers[wire.HeaderQuarantined] = time.Now().UTC().Format(time.RFC3339)
	return i.publish(ctx, ready, broker.Outgoing{
		Exchange: i.config.Topology.Quarantine(), RoutingKey: m.RoutingKey, Mandatory: true, Publishing: publishing,
	})
}

// sinceStamp has a relative delay begin when the broker took the message, by the header that
// it is configured to set, and not later, when a bridge takes it in. The broker's clock is
// at most within from Redis': so the delay may begin within later, and never earlier. A
// message that the broker has dead-lettered was stamped before its delay began.
func sinceStamp(d *amqp.Delivery, w message.When, within time.Duration, now time.Time) message.When {
	delay, relative := w.Relative()
	ms, stamped := d.Headers[wire.HeaderBrokerTimestamp].(int64)
	_, deadLettered := d.Headers["x-death"]
	if within <= 0 || !relative || delay == 0 || !stamped || deadLettered {
		return w
	}
	begins := time.UnixMilli(ms).Add(within)
	if !begins.Before(now) {
		return w
	}
	return message.At(begins.Add(delay))
}

// deliver parks a message, with what begins its record, or publishes it where it is due.
func (i *Intake) deliver(ctx context.Context, ready *broker.Pool, e *entry, m *message.Message, when message.When, begin store.Beginning) error {
	if when != (message.When{}) {
		ticket, err := i.config.Park(ctx, m, when, begin)
		switch {
		case err != nil:
			return err
		case ticket.Parking == message.CancelledBefore:
			i.config.Logger.Info("message is dropped: its ID is cancelled", "id", e.id)
			return counted(&i.counted.dropped, nil)
		case ticket.Parking == message.Parked:
			return counted(&i.counted.parked, nil)
		case ticket.Parking == message.ParkedBefore:
			return counted(&i.counted.duplicates, nil)
		}
	}
	wait := func() error { // in Redis, rather than in the way of others, here or in a lane
		begin.Direct = true
		return i.deliver(ctx, ready, e, m, message.After(waitPause), begin)
	}
	there, err := i.config.Ready.Look(ctx, m.Entry)
	switch {
	case err != nil:
		return err
	case !there:
		return wait()
	}
	// When it was published is not known: a change since then must not be taken for one
	// of an earlier message with the same ID.
	err = i.publish(ctx, ready, broker.Outgoing{
		Exchange: i.config.Topology.ReadyExchangeOf(m.Entry), RoutingKey: m.RoutingKey, Mandatory: true,
		Publishing: m.Publishing(message.Journey{Due: time.Now(), Path: message.PathDirect}),
	})
	if errors.Is(err, broker.ErrSilent) {
		return wait()
	}
	i.config.Ready.Forget(err)
	return counted(&i.counted.published, err)
}

// intakeSilent is how many messages may wait for the answers of silent targets before no
// more are published: the rest waits in Redis.
const intakeSilent = intakePrefetch / 4

// publish returns once the broker has answered. It does not wait for a target that was
// silent before: that is ErrSilent.
func (i *Intake) publish(ctx context.Context, p *broker.Pool, out broker.Outgoing) error {
	target := broker.Target{Exchange: out.Exchange, Key: out.RoutingKey}
	silence, err := i.config.Unanswered.AdmitUnlessSilent(ctx, target, broker.QueueBound)
	switch {
	case err != nil:
		return err
	case silence > 0:
		return fmt.Errorf("exchange %s: %w", out.Exchange, broker.ErrSilent)
	case i.config.Unanswered.Silent() >= intakeSilent:
		i.config.Unanswered.Withdraw(target)
		return fmt.Errorf("exchange %s: %w", out.Exchange, broker.ErrSilent)
	}
	answer := make(chan error, 1)
	answered := func(err error) {
		i.config.Unanswered.Answered(target)
		answer <- err
	}
	if err := p.Publish(ctx, target, out, answered); err != nil {
		answered(nil)
		return err
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
