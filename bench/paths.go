package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/producer"
	"github.com/delaybridge/delaybridge/topology"
)

// path is one way to delay a message.
type path interface {
	name() string
	// delay turns a tier's delay into one of this path's: offset is how much
	// longer it may be.
	delay(tier, offset time.Duration) time.Duration
	// publish returns once the message is safe, with its due time.
	publish(ctx context.Context, id string, body []byte, delay time.Duration) (time.Time, error)
}

const routingKey = "bench.message"

// publishChannels is how many channels a producer has.
const publishChannels = 16

// rawPath is amqp091-go and the broker: one tier per delay, and nothing of ours.
type rawPath struct {
	channels [publishChannels]*amqp.Channel
	turn     atomic.Uint32
}

// newRawPath declares tiers of its own, with the same arguments as ours.
func newRawPath(conn *amqp.Connection, t *topology.Topology) (*rawPath, error) {
	r := &rawPath{}
	for i := range r.channels {
		ch, err := conn.Channel()
		if err != nil {
			return nil, err
		}
		if err := ch.Confirm(false); err != nil {
			return nil, err
		}
		r.channels[i] = ch
	}
	ours := map[string]amqp.Table{}
	for _, q := range t.Queues() {
		ours[q.Name] = q.Args
	}
	for _, ttl := range []time.Duration{floodDelay, paceDelay} {
		tier, ok := t.Tier(ttl)
		if !ok {
			return nil, fmt.Errorf("there is no tier of %v", ttl)
		}
		name, ch := rawName(ttl), r.channels[0]
		if err := ch.ExchangeDeclare(name, amqp.ExchangeFanout, true, false, false, false, nil); err != nil {
			return nil, err
		}
		if _, err := ch.QueueDeclare(name, true, false, false, false, ours[tier.Name]); err != nil {
			return nil, err
		}
		if err := ch.QueueBind(name, "", name, false, nil); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func rawName(ttl time.Duration) string { return "bench.raw." + wire.TTLName(ttl) }

func (*rawPath) name() string                                     { return "raw" }
func (*rawPath) delay(tier, _ time.Duration) time.Duration        { return tier }
func (exactPath) name() string                                    { return "exact" }
func (exactPath) delay(tier, _ time.Duration) time.Duration       { return tier }
func (arbitraryPath) name() string                                { return "arbitrary" }
func (arbitraryPath) delay(tier, off time.Duration) time.Duration { return tier + off }

func (r *rawPath) publish(ctx context.Context, id string, body []byte, delay time.Duration) (time.Time, error) {
	due := time.Now().Add(delay)
	ch := r.channels[int(r.turn.Add(1))%len(r.channels)]
	confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, rawName(delay), routingKey, true, false, amqp.Publishing{
		MessageId: id, DeliveryMode: amqp.Persistent, Body: body,
		Headers: amqp.Table{"due": strconv.FormatInt(due.UnixMilli(), 10)},
	})
	if err != nil {
		return due, err
	}
	ok, err := confirm.WaitContext(ctx)
	if err == nil && !ok {
		err = errors.New("not confirmed")
	}
	return due, err
}

// exactPath is our producer with a delay that equals a tier.
type exactPath struct{ producer *producer.Producer }

func (p exactPath) publish(ctx context.Context, id string, body []byte, delay time.Duration) (time.Time, error) {
	return publishOurs(ctx, p.producer, id, body, delay)
}

// arbitraryPath is our producer with a delay that does not: parked, promoted.
type arbitraryPath struct{ producer *producer.Producer }

func (p arbitraryPath) publish(ctx context.Context, id string, body []byte, delay time.Duration) (time.Time, error) {
	return publishOurs(ctx, p.producer, id, body, delay)
}

func publishOurs(ctx context.Context, p *producer.Producer, id string, body []byte, delay time.Duration) (time.Time, error) {
	// By this process' clock from before the call, so that nobody else's word is
	// taken for what counts as early.
	due := time.Now().Add(delay)
	_, err := p.Publish(ctx, message.Message{ID: id, RoutingKey: routingKey, Body: body}, message.After(delay))
	return due, err
}
