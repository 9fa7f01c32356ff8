package redisbridge_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
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

// After a pause, what is overdue goes first, what is due soon does not wait for
// other lanes, and what still has time does not rush upon the broker.
func TestCatchingUpTakesTheTimeThereIs(t *testing.T) {
	t.Parallel()
	const overdue, urgent, late = 100, 20, 400
	tiers := []time.Duration{time.Second, 3 * time.Second, 10 * time.Second}
	b := newBench(t, topology.Config{Tiers: tiers, Lead: 10 * time.Second, Shards: 1})
	// All are parked side by side: one by one, a busy machine takes longer than they have.
	b.parkAll(t, "late", late, func(i int) message.When {
		return message.After(11*time.Second + time.Duration(i)*10*time.Millisecond)
	})
	b.parkAll(t, "overdue", overdue, func(i int) message.When {
		return message.After(time.Second + time.Duration(i+1)*9*time.Millisecond)
	})
	soon := time.Now().Add(7500 * time.Millisecond)
	b.parkAll(t, "urgent", urgent, func(int) message.When { return message.At(soon) }) // late as the others, but for a short lane
	time.Sleep(time.Until(soon.Add(-1500 * time.Millisecond)))                         // no bridge runs: this is the outage
	var mu sync.Mutex
	var published []string
	var first, last time.Time
	b.run(t, func(c *redisbridge.Config) {
		c.Observe = func(step redisbridge.Step, id string, _ message.Path) {
			if step != redisbridge.StepPublished {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			published = append(published, id)
			if last = time.Now(); strings.HasPrefix(id, "late") && first.IsZero() {
				first = last
			}
		}
	})
	b.arrivals.await(t, overdue+urgent+late, patience)
	mu.Lock()
	defer mu.Unlock()
	for i, id := range published[:overdue+urgent] {
		if want := map[bool]string{true: "overdue", false: "urgent"}[i < overdue]; !strings.HasPrefix(id, want) {
			t.Fatalf("%s was published as number %d, before what was %s", id, i+1, want)
		}
	}
	// The pause has left 4 s of promotions.
	if took := last.Sub(first); took < 500*time.Millisecond {
		t.Errorf("everything that was late was promoted within %v", took)
	}
}

// parkAll parks n messages at the same time.
func (b *bench) parkAll(t *testing.T, name string, n int, when func(i int) message.When) {
	t.Helper()
	var all errgroup.Group
	for i := range n {
		all.Go(func() error {
			_, err := b.park.Park(t.Context(), &message.Message{ID: fmt.Sprintf("%s-%d", name, i), RoutingKey: "order.unpaid"}, when(i))
			return err
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
}
