package redisbridge_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// before is what b's virtual host had before: another tier, its lanes, and an entry.
func (b *bench) before(t *testing.T) (*topology.Topology, *topology.Management) {
	t.Helper()
	config := short()
	config.Prefix, config.Tiers, config.Lead = b.Prefix, append(config.Tiers, 3*time.Second), 3*time.Second
	config.Entries = []topology.Entry{{Name: "old", Kind: amqp.ExchangeTopic}}
	old, err := topology.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.Apply(t.Context(), b.dial(t)); err != nil {
		t.Fatal(err)
	}
	management, err := topology.NewManagement(b.ManagementURL, b.VHost)
	if err != nil {
		t.Fatal(err)
	}
	return old, management
}

// While messages go on to flow, a tier, its lanes and an entry are pruned. A bridge that still has
// them is named, and one that has not delivers what is parked for the entry before its ready
// exchange goes.
func TestPruneBesideBridges(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	old, management := b.before(t)
	conn := b.dial(t)
	prune := func(o topology.PruneOptions) (removed, left []topology.Change, err error) {
		return b.topology.Prune(t.Context(), conn, management, b.park.PruneOptions(o))
	}
	const outlet = "outlet"
	ch := b.channel(t)
	if _, err := ch.QueueDeclare(outlet, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	if err := ch.QueueBind(outlet, "#", old.ReadyExchangeOf("old"), false, nil); err != nil {
		t.Fatal(err)
	}

	stop := b.run(t, func(c *redisbridge.Config) { c.Topology = old })
	until(t, "the bridge to be named", func() bool {
		_, left, err := prune(topology.PruneOptions{DryRun: true})
		return err == nil && slices.ContainsFunc(left, func(l topology.Change) bool { return l.Kind == "bridge" })
	})
	_, _, err := prune(topology.PruneOptions{Entries: []string{"old"}})
	var refused *topology.BridgesError
	if !errors.As(err, &refused) || len(refused.Bridges) != 1 {
		t.Fatalf("got %v, want a BridgesError", err)
	}
	for _, has := range refused.Bridges {
		if !slices.Contains(has, old.EntryExchangeOf("old")) || !slices.Contains(has, old.Lane(3*time.Second, 0)) {
			t.Errorf("the bridge has %v", has)
		}
	}
	if drifts, err := old.Verify(t.Context(), management); err != nil || len(drifts) > 0 {
		t.Errorf("prune has refused, and changed %+v (%v)", drifts, err)
	}
	stop()

	b.run(t, nil)
	// Parked with the old configuration, for a lane that goes, and for the entry.
	park, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: b.client, Topology: old})
	if err != nil {
		t.Fatal(err)
	}
	due := dueTimes{at: map[string]time.Time{}}
	for _, id := range []string{"one", "two", "three"} {
		ticket, err := park.Park(t.Context(), &message.Message{ID: id, RoutingKey: "order.unpaid"}, message.After(8*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		due.note(id, ticket.Due)
		m := &message.Message{ID: id, RoutingKey: "order.unpaid", Entry: "old"}
		if _, err := park.Park(t.Context(), m, message.After(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	calm := b.startTraffic(t, &due)
	var waits sync.Once
	_, left, err := prune(topology.PruneOptions{Wait: patience, Entries: []string{"old"}, Progress: func(left []topology.Change) {
		if !slices.ContainsFunc(left, func(l topology.Change) bool { return l.Details == "Redis has 3 messages of the entry" }) {
			return
		}
		waits.Do(func() {
			for _, id := range []string{"one", "two", "three"} {
				b.changed(t, redisbridge.OutcomeDone, 1)(park.OfEntry("old").Reschedule(t.Context(), id, message.After(4*time.Second)))
			}
		})
	}})
	calm()
	if err != nil || len(left) > 0 {
		t.Fatalf("left %+v (%v)", left, err)
	}
	until(t, "what was parked for the entry", func() bool {
		q, err := b.channel(t).QueueDeclarePassive(outlet, true, false, false, false, nil)
		return err == nil && q.Messages == 3
	})
	if drifts, err := b.topology.Verify(t.Context(), management); err != nil || len(drifts) > 0 {
		t.Errorf("drift: %+v (%v)", drifts, err)
	}
	b.nothingLost(t, &due)
}

// A bridge with the elder configuration puts back what a forced prune closes under it, and loses nothing.
func TestForcedPruneBesideAnElderBridge(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	old, management := b.before(t)
	b.run(t, func(c *redisbridge.Config) { c.Topology = old })
	park, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: b.client, Topology: old})
	if err != nil {
		t.Fatal(err)
	}
	due := dueTimes{at: map[string]time.Time{}}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	rounds := 0
	parkSome := func([]topology.Change) {
		for n := range 50 {
			id := fmt.Sprintf("%d-%d", rounds, n)
			ticket, err := park.Park(t.Context(), &message.Message{ID: id, RoutingKey: "order.unpaid"}, message.After(3500*time.Millisecond))
			if err != nil {
				t.Error(err)
				return
			}
			due.note(id, ticket.Due)
		}
		if rounds++; rounds == 6 {
			interrupt()
		}
	}
	parkSome(nil)
	removed, _, err := b.topology.Prune(ctx, b.dial(t), management, topology.PruneOptions{Force: true, Wait: patience, Progress: parkSome})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want Canceled", err)
	}
	lane := old.Lane(3*time.Second, 0)
	if !slices.ContainsFunc(removed, func(c topology.Change) bool { return c.Kind == "exchange" && c.Name == lane }) {
		t.Errorf("%s was never closed: %v", lane, removed)
	}
	b.nothingLost(t, &due)
}
