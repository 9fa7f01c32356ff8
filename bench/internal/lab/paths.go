package lab

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

// Path is one way to delay a message.
type Path interface {
	Name() string
	// Delay turns a tier's delay into one of this path's: offset is how much
	// longer it may be.
	Delay(tier, offset time.Duration) time.Duration
	// Publish returns once the message is safe, with its due time.
	Publish(ctx context.Context, id string, body []byte, delay time.Duration) (time.Time, error)
}

// RoutingKey is that of all messages.
const RoutingKey = "bench.message"

// PublishChannels is how many channels a producer has.
const PublishChannels = 16

// rawPath is amqp091-go and the broker: one tier per delay, and nothing of ours.
type rawPath struct {
	channels [PublishChannels]*amqp.Channel
	turn     atomic.Uint32
}

// NewRaw is amqp091-go and the broker alone: it declares tiers of its own, with the same
// arguments as ours.
func NewRaw(conn *amqp.Connection, t *topology.Topology) (Path, error) {
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

func (*rawPath) Name() string                                     { return "raw" }
func (*rawPath) Delay(tier, _ time.Duration) time.Duration        { return tier }
func (exactPath) Name() string                                    { return "exact" }
func (exactPath) Delay(tier, _ time.Duration) time.Duration       { return tier }
func (arbitraryPath) Name() string                                { return "arbitrary" }
func (arbitraryPath) Delay(tier, off time.Duration) time.Duration { return tier + off }

func (r *rawPath) Publish(ctx context.Context, id string, body []byte, delay time.Duration) (time.Time, error) {
	due := time.Now().Add(delay)
	ch := r.channels[int(r.turn.Add(1))%len(r.channels)]
	confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, rawName(delay), RoutingKey, true, false, amqp.Publishing{
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

type exactPath struct{ producer *producer.Producer }

// Exact is our producer, untracked, with a delay that equals a tier.
func Exact(p *producer.Producer) Path { return exactPath{p} }

func (p exactPath) Publish(ctx context.Context, id string, body []byte, delay time.Duration) (time.Time, error) {
	return publishOurs(ctx, p.producer, id, body, delay)
}

type arbitraryPath struct{ producer *producer.Producer }

// Arbitrary is our producer with a delay that does not: messages are parked, and promoted.
func Arbitrary(p *producer.Producer) Path { return arbitraryPath{p} }

func (p arbitraryPath) Publish(ctx context.Context, id string, body []byte, delay time.Duration) (time.Time, error) {
	return publishOurs(ctx, p.producer, id, body, delay)
}

func publishOurs(ctx context.Context, p *producer.Producer, id string, body []byte, delay time.Duration) (time.Time, error) {
	// By this process' clock from before the call, so that no other process' word is
	// taken for what counts as early.
	due := time.Now().Add(delay)
	_, err := p.Publish(ctx, message.Message{ID: id, RoutingKey: RoutingKey, Body: body}, message.After(delay))
	return due, err
}
