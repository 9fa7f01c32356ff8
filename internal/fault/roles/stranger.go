package roles

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/fault/history"
	"github.com/delaybridge/delaybridge/internal/fault/shop"
	"github.com/delaybridge/delaybridge/internal/sleep"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
)

// quotas are those of the run's bridges. A flood is over that of the strangers, and no order is over its own.
func quotas() map[string]redisbridge.Quota {
	plenty := redisbridge.Quota{Messages: 1 << 20, Bytes: 1 << 40, Delay: 24 * time.Hour, Body: 1 << 30}
	return map[string]redisbridge.Quota{
		"": plenty, shop.TrackedEntry().Name: plenty,
		shop.StrangersEntry().Name: {Messages: 5, Body: 1 << 20},
	}
}

// Every so often a stranger publishes that many messages at once, all of which are to be parked.
const (
	floodEvery = 10 * time.Second
	flood      = 25
)

// stranger publishes to an entry of its own, with the IDs of orders that are under way and with headers
// that only the bridge may write, and floods it. To do the others no harm is the rules' business.
func (p *player) stranger(ctx context.Context) error {
	conn, err := broker.New(broker.Config{URL: p.AMQP, Name: p.Name, Logger: p.log})
	if err != nil {
		return err
	}
	connected, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	ended := make(chan error, 1)
	go func() { ended <- conn.Run(connected) }()
	publisher := broker.NewPublisher(conn)
	rng := rand.New(rand.NewPCG(p.Seed, uint64(p.Life)))
	var flooded time.Time
	for ctx.Err() == nil {
		if time.Since(flooded) > floodEvery {
			flooded = time.Now()
			p.flood(ctx, publisher)
		}
		now := int(float64(history.Now()-p.Began) / 1e6 * p.Rate)
		out := broker.Outgoing{
			// RabbitMQ 3.10 may take it to the default entry's ready exchange. No queue is bound there by this key.
			Exchange: p.topology.EntryExchangeOf(shop.StrangersEntry().Name), RoutingKey: "stranger", Mandatory: true,
			Publishing: p.forged(rng, max(0, now+rng.IntN(200)-150)),
		}
		attempt, cancel := context.WithTimeout(ctx, PublishPatience)
		_ = publisher.Publish(attempt, out, func(error) {}) // no rule needs to know whether it was confirmed
		cancel()
		sleep.For(ctx, 100*time.Millisecond)
	}
	hangUp()
	return <-ended
}

// flood publishes without waiting for any confirm in between.
func (p *player) flood(ctx context.Context, publisher *broker.Publisher) {
	attempt, cancel := context.WithTimeout(ctx, PublishPatience)
	defer cancel()
	for n := range flood {
		_ = publisher.Publish(attempt, broker.Outgoing{
			Exchange: p.topology.EntryExchangeOf(shop.StrangersEntry().Name), RoutingKey: "stranger", Mandatory: true,
			Publishing: amqp.Publishing{MessageId: fmt.Sprintf("flood-%d-%d", p.Life, n), DeliveryMode: amqp.Persistent, Headers: amqp.Table{wire.HeaderDelay: int64(3500)}, Body: []byte(shop.Forged)},
		}, func(error) {})
	}
}

// forged is a message with the ID of order n.
func (p *player) forged(rng *rand.Rand, n int) amqp.Publishing {
	lane := p.topology.Lane(time.Second, 0)
	instant := []time.Time{time.Now().Add(time.Second), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(0, 0)}[rng.IntN(3)]
	headers := amqp.Table{
		wire.HeaderPublished: instant.UTC().Format(wire.InstantLayout), wire.HeaderDue: instant.Add(time.Second).UTC().Format(wire.InstantLayout),
		wire.HeaderPath: []string{wire.ReplayPath, "\x1b[31mred\u202e\n"}[rng.IntN(2)], wire.HeaderVersion: rng.Int64() >> rng.IntN(63),
		wire.HeaderUserID: "admin", wire.HeaderQueue: shop.Queue, wire.HeaderKey: shop.ClosingKey, wire.HeaderAttempts: int64(4),
		wire.HeaderError: "forged", wire.HeaderHistory: []any{"forged"},
		"x-death": []any{amqp.Table{"queue": lane, "exchange": lane, "reason": "expired", "count": int64(0), "routing-keys": []any{shop.ClosingKey}}},
	}
	if rng.IntN(2) == 0 {
		headers[wire.HeaderEntry] = shop.TrackedEntry().Name
	}
	switch rng.IntN(5) {
	case 0:
		headers[wire.HeaderDelay] = "soon\x1b[2J" // for the quarantine
	case 1:
		headers[wire.HeaderDelay] = int64(0)
	case 2:
		headers[wire.HeaderDelay] = int64(1 + rng.IntN(5000))
	default:
		headers[wire.HeaderDelay] = shop.Tiers()[rng.IntN(len(shop.Tiers()))].Milliseconds()
	}
	for i := range rng.IntN(20) {
		headers[fmt.Sprint("ballast-", i)] = string(make([]byte, rng.IntN(4096)))
	}
	if rng.IntN(10) == 0 {
		deep := amqp.Table{}
		for range wire.MaxHeaderDepth + rng.IntN(20) {
			deep = amqp.Table{"deep": deep}
		}
		headers["deep"] = deep
	}
	return amqp.Publishing{MessageId: shop.OrderID(n), DeliveryMode: amqp.Persistent, Headers: headers, Body: []byte(shop.Forged)}
}

// ignore handles what strangers have published.
func (p *player) ignore(_ context.Context, m message.Message) error {
	if m.UserID != "" || m.Journey.Attempts > 0 || m.Journey.Version > 0 || m.Entry != shop.StrangersEntry().Name {
		p.log.Error("a forged header counts", "message", m)
		p.note(history.Event{Kind: history.Received, Order: shop.Forged + " " + m.ID}) // and is not intact
	}
	return nil
}
