package main

import (
	"context"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// An order whose delay equals a tier takes the tier, and any other is parked.
func TestBothWaysAreShown(t *testing.T) {
	t.Parallel()
	env := servertest.ForTest(t)
	tiers, err := topology.New(topology.Config{Prefix: env.Prefix})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := amqp.Dial(env.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := tiers.Apply(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	client, err := redisbridge.NewClient(env.RedisURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	park, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: client, Topology: tiers})
	if err != nil {
		t.Fatal(err)
	}
	p, err := (&stage{amqpURL: env.AMQPURL, topology: tiers}).newProducer(park)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	for _, c := range plan() {
		receipt, err := p.Publish(t.Context(), message.Message{ID: c.order.ID, RoutingKey: routingKey}, message.After(c.delay))
		if err != nil {
			t.Fatal(err)
		}
		_, exact := tiers.Tier(c.delay)
		if tier := strings.HasPrefix(string(receipt.Path), "tier "); c.delay > 0 && tier != exact {
			t.Errorf("the path of %v is %q", c.delay, receipt.Path)
		}
	}
}
