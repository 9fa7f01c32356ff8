package topology_test

import (
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/topology"
)

// What a consumer without package consumer learns of a delivery.
func ExampleTopology_Message() {
	top, err := topology.New(topology.Defaults())
	if err != nil {
		fmt.Println(err)
		return
	}
	m := top.Message(&amqp.Delivery{
		Exchange: "delaybridge.ready", MessageId: "order-1", RoutingKey: "order.unpaid", Body: []byte(`{"order":1}`),
		Headers: amqp.Table{"shop": "x", "x-delaybridge-due": "2026-05-01T12:30:00.000Z", "x-delaybridge-path": "parked, then lane 1m"},
	})
	fmt.Println(m.ID, m.Headers["shop"], m.Journey.Due.UTC().Format(time.RFC3339), m.Journey.Path)
	// Output: order-1 x 2026-05-01T12:30:00Z parked, then lane 1m
}

func Example() {
	t, err := topology.New(topology.Config{
		Prefix: "shop",
		Tiers:  []time.Duration{time.Minute, 30 * time.Minute},
		Shards: 1,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, q := range t.Queues() {
		fmt.Println(q.Name)
	}
	_, exact := t.Tier(30 * time.Minute)
	fmt.Println("30m waits in a tier of its own:", exact)
	_, exact = t.Tier(45 * time.Minute)
	fmt.Println("45m waits in a tier of its own:", exact)
	// t.Apply(ctx, conn) creates all of it on a broker.

	// Output:
	// shop.unrouted
	// shop.quarantine
	// shop.inbox
	// shop.command
	// shop.installation
	// shop.tier.1m
	// shop.tier.30m
	// shop.lane.1m.0
	// 30m waits in a tier of its own: true
	// 45m waits in a tier of its own: false
}
