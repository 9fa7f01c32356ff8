package redisbridge_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/topology"
)

// What nobody promoted in time leaves in the order in which it was due, whatever
// lanes it was meant for.
func TestBacklogLeavesInDueOrder(t *testing.T) {
	t.Parallel()
	const n = 600
	b := newBench(t, topology.Config{Tiers: []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}, Lead: 4 * time.Second, Shards: 1})
	due := make([]time.Time, n)
	for i := range n {
		delay := 100*time.Millisecond + time.Duration((i*7919)%n)*8*time.Millisecond
		due[i] = b.parkOne(t, fmt.Sprintf("m-%d", i), message.After(delay))
	}
	time.Sleep(time.Until(slices.MaxFunc(due, time.Time.Compare))) // no bridge runs: this is the outage
	b.run(t, nil)
	var all []arrival
	for _, list := range b.arrivals.await(t, n, patience) {
		all = append(all, list...)
	}
	slices.SortFunc(all, func(a, b arrival) int { return a.at.Compare(b.at) })
	var latest time.Time
	for _, a := range all {
		if a.Journey.Due.Before(latest) {
			t.Fatalf("%s came after a message that was due %v later", a.ID, latest.Sub(a.Journey.Due))
		}
		latest = a.Journey.Due
	}
}
