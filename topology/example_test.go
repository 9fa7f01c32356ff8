package topology_test

import (
	"fmt"
	"time"

	"github.com/delaybridge/delaybridge/topology"
)

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
	// shop.tier.1m
	// shop.tier.30m
	// shop.lane.1m.0
	// 30m waits in a tier of its own: true
	// 45m waits in a tier of its own: false
}
