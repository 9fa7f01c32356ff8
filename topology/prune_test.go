package topology_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/topology"
)

// pruneWait is more than a drain takes on a slow machine.
const pruneWait = 2 * time.Minute

// before is what b's virtual host had before: another tier with its lanes, another lead, and
// more entries.
func (b *bench) before(t testing.TB, entries ...topology.Entry) *topology.Topology {
	t.Helper()
	old := describe(t, topology.Config{
		Prefix: b.Prefix(), Tiers: []time.Duration{time.Second, 4 * time.Second, 30 * time.Second}, Lead: 4 * time.Second, Shards: 1,
		Entries: append(b.Entries(), entries...),
	})
	if _, err := old.Apply(t.Context(), b.conn); err != nil {
		t.Fatal(err)
	}
	b.apply(t)
	return old
}

// nothingParked is a Redis without messages.
func nothingParked(context.Context, string) (int, error) { return 0, nil }

func (b *bench) prune(t testing.TB, o topology.PruneOptions) (removed, left []topology.Change) {
	t.Helper()
	removed, left, err := b.Prune(t.Context(), b.conn, b.management, o)
	if err != nil {
		t.Fatal(err)
	}
	return removed, left
}

// wholly prunes until nothing is left.
func (b *bench) wholly(t testing.TB, o topology.PruneOptions) []topology.Change {
	t.Helper()
	o.Wait = pruneWait
	removed, left := b.prune(t, o)
	if len(left) > 0 {
		t.Fatalf("left: %+v", left)
	}
	b.verifiedWithout(t)
	return removed
}

// place says where a change is among others.
func place(t testing.TB, changes []topology.Change, kind, name string) int {
	t.Helper()
	at := slices.IndexFunc(changes, func(c topology.Change) bool { return c.Kind == kind && c.Name == name })
	if at < 0 {
		t.Fatalf("no deletion of %s %s in %v", kind, name, changes)
	}
	return at
}

// arrive waits until a queue has as many messages.
func (b *bench) arrive(t testing.TB, queue string, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d messages in %s", n, queue), func() bool { return b.ready(t, queue) == n })
}

// traffic publishes to an entry exchange, one message after the other, until stop is called.
func (b *bench) traffic(t testing.TB, exchange string, delay time.Duration) (published *atomic.Int64, stop func()) {
	t.Helper()
	ch := b.channel(t)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	published = &atomic.Int64{}
	ctx, cancel := context.WithCancel(t.Context())
	var publisher sync.WaitGroup
	publisher.Go(func() {
		for ctx.Err() == nil {
			message := amqp.Publishing{DeliveryMode: amqp.Persistent, Headers: amqp.Table{"x-delay": delay.Milliseconds()}}
			confirmation, err := ch.PublishWithDeferredConfirm(exchange, "order.created", true, false, message)
			if err == nil && confirmation.Wait() {
				published.Add(1)
				continue
			}
			t.Errorf("publish to %s: not confirmed (%v)", exchange, err)
			return
		}
	})
	return published, func() { cancel(); publisher.Wait() }
}

func TestPruneWhereNothingIsLeft(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.apply(t)
	if changes := b.wholly(t, topology.PruneOptions{}); len(changes) != 0 {
		t.Errorf("deleted %v", changes)
	}
}

// While messages are in a tier and in a lane, and more are published for the tier, both are
// taken out, and every message is still there: out of the tier or lane, or in the inbox.
func TestPruneDrainsFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	old := b.before(t)
	tier, ok := old.Tier(4 * time.Second)
	if !ok {
		t.Fatal("no tier")
	}
	lane := old.Lane(4*time.Second, 0)
	// Others' queue and exchange, but for their names.
	gold := b.Prefix() + ".tier.gold"
	if _, err := b.channel(t).QueueDeclare(gold, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	if err := b.channel(t).ExchangeDeclare(gold, amqp.ExchangeFanout, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	orders := b.orders(t)
	for range 20 {
		b.publish(t, tier.Name, "order.created", amqp.Publishing{})
		b.publish(t, lane, "order.created", amqp.Publishing{})
	}
	published, stop := b.traffic(t, b.EntryExchange(), 4*time.Second)
	eventually(t, "some traffic", func() bool { return published.Load() > 10 })
	changes := b.wholly(t, topology.PruneOptions{Force: true}) // the statistics still have what was published above
	stop()
	for _, name := range []string{tier.Name, lane} {
		if place(t, changes, "exchange", name) > place(t, changes, "queue", name) {
			t.Errorf("%s was deleted before it was closed: %v", name, changes)
		}
	}
	if place(t, changes, "binding", b.EntryExchange()+" -> "+tier.Name) > place(t, changes, "exchange", tier.Name) {
		t.Errorf("the exchange went before the binding: %v", changes)
	}
	want := 40 + int(published.Load())
	eventually(t, "all messages", func() bool { return b.ready(t, orders)+b.ready(t, b.Inbox()) == want })
	if b.ready(t, b.Inbox()) == 0 {
		t.Error("nothing went to the inbox, so the tier was never closed under traffic")
	}
	if names := b.existing(t); len(names) != len(b.Exchanges())+len(b.Queues())+2 || !slices.Contains(names, gold) {
		t.Errorf("left: %v", names)
	}
}

// It looks once by default: what is empty goes, and of the rest it says why it does not.
func TestPruneLooksOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	old := describe(t, topology.Config{
		Prefix: b.Prefix(), Tiers: []time.Duration{time.Second, 30 * time.Second, time.Hour}, Lead: time.Second, Shards: 2, Entries: b.Entries(),
	})
	if _, err := old.Apply(t.Context(), b.conn); err != nil {
		t.Fatal(err)
	}
	b.apply(t)
	hour, _ := old.Tier(time.Hour)
	b.publish(t, hour.Name, "order.created", amqp.Publishing{})
	removed, left := b.prune(t, topology.PruneOptions{Force: true})
	if len(left) != 1 || left[0].Name != hour.Name || left[0].Action != "wait" || !strings.Contains(left[0].Details, "1 messages") {
		t.Errorf("left %+v, want %s with a message", left, hour.Name)
	}
	place(t, removed, "queue", b.Lane(time.Second, 1))
	if b.ready(t, hour.Name) != 1 {
		t.Error("the message is gone")
	}
}

func TestPruneGoesOnWhereItWasInterrupted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	old := b.before(t, topology.Entry{Name: "old", Kind: amqp.ExchangeTopic})
	tier, _ := old.Tier(4 * time.Second)
	orders := b.orders(t)
	if err := b.channel(t).QueueBind(orders, "#", b.ReadyExchangeOf("old"), false, nil); err != nil {
		t.Fatal(err)
	}
	options := topology.PruneOptions{Force: true, Wait: pruneWait, Entries: []string{"old"}, Parked: nothingParked}
	for _, left := range []string{tier.Name, b.ReadyExchangeOf("old")} {
		b.publish(t, old.Tiers()[2].Name+".entries", "nobody", amqp.Publishing{Expiration: "1"})
		// It is interrupted when something is closed, and then when it is about to go.
		ctx, cancel := context.WithCancel(t.Context())
		options.Progress = func(all []topology.Change) {
			if slices.ContainsFunc(all, func(l topology.Change) bool { return l.Name == left }) {
				cancel()
			}
		}
		b.publish(t, b.EntryExchange(), "order.created", amqp.Publishing{Headers: amqp.Table{"x-delay": int64(1000)}})
		if _, _, err := b.Prune(ctx, b.conn, b.management, options); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want Canceled", err)
		}
		cancel()
	}
	options.Progress = nil
	b.wholly(t, options)
	b.arrive(t, orders, 2)
}

// An entry is removed in the end of its messages' way: its ready exchange stays while the inbox,
// Redis or a queue that it shares has any.
func TestPruneRemovesAnEntry(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	old := b.before(t, topology.Entry{Name: "old", Kind: amqp.ExchangeTopic})
	orders := b.orders(t)
	if err := b.channel(t).QueueBind(orders, "#", b.ReadyExchangeOf("old"), false, nil); err != nil {
		t.Fatal(err)
	}
	// The first message waits in a tier that stays, and keeps others company there.
	b.publish(t, b.EntryExchangeOf("old"), "order.created", amqp.Publishing{Headers: amqp.Table{"x-delay": int64(30_000)}})
	b.publish(t, b.EntryExchangeOf("old"), "order.created", amqp.Publishing{Headers: amqp.Table{"x-delay": int64(1234)}})
	waits := map[string]bool{}
	note := func(all []topology.Change) {
		for _, l := range all {
			if l.Name != b.ReadyExchangeOf("old") {
				continue
			}
			for _, what := range []string{b.Inbox(), "Redis", "30s.entries"} {
				if strings.Contains(l.Details, what) {
					waits[what] = true
				}
			}
			if strings.Contains(l.Details, b.Inbox()) && b.ready(t, b.Inbox()) > 0 {
				b.await(t, b.Inbox()) // what a bridge would park
			}
		}
	}
	parked := 2
	changes := b.wholly(t, topology.PruneOptions{
		Force: true, Entries: []string{"old"}, Progress: note,
		Parked: func(_ context.Context, entry string) (int, error) {
			if entry != "old" {
				t.Errorf("asked for entry %q", entry)
			}
			parked = max(0, parked-1)
			return parked, nil
		},
	})
	b.arrive(t, orders, 1)
	if len(waits) != 3 {
		t.Errorf("it waited for %v alone", waits)
	}
	if place(t, changes, "exchange", old.EntryExchangeOf("old")) > place(t, changes, "exchange", old.ReadyExchangeOf("old")) {
		t.Errorf("the ready exchange went first: %v", changes)
	}
	place(t, changes, "binding", old.ReadyExchangeOf("old")+" -> "+orders)
}

// With the last entry go the tiers, lanes and exchanges that all entries share.
func TestPruneRemovesTheLastEntry(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	old := b.Topology
	b.apply(t)
	b.Topology = describe(t, topology.Config{Prefix: b.Prefix(), Tiers: []time.Duration{time.Second, 30 * time.Second}, Lead: time.Second, Shards: 1})
	orders := b.orders(t)
	b.publish(t, old.EntryExchangeOf("audit"), "order.created", amqp.Publishing{Headers: amqp.Table{"x-delay": int64(1000)}})
	if err := b.channel(t).QueueBind(orders, "", old.ReadyExchangeOf("audit"), false, nil); err != nil {
		t.Fatal(err)
	}
	changes := b.wholly(t, topology.PruneOptions{Force: true, Entries: []string{"audit"}, Parked: nothingParked})
	b.arrive(t, orders, 1)
	if names := b.existing(t); len(names) != len(b.Exchanges())+len(b.Queues()) {
		t.Errorf("left: %v", names)
	}
	if tier := old.TierQueues()[1].Name; place(t, changes, "queue", tier) > place(t, changes, "exchange", b.Prefix()+".due.tiers") {
		t.Errorf("what %s leads to went first: %v", tier, changes)
	}
}

// An entry stays that others use, with what it needs, unless it is named.
func TestPruneKeepsAnEntryInUse(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(*testing.T, *bench, string){
		"is bound to": func(t *testing.T, b *bench, entry string) {
			t.Helper()
			if err := b.channel(t).QueueBind(b.orders(t), "#", b.ReadyExchangeOf(entry), false, nil); err != nil {
				t.Fatal(err)
			}
		},
		"sends its dead letters there": func(t *testing.T, b *bench, entry string) {
			t.Helper()
			args := amqp.Table{"x-dead-letter-exchange": b.EntryExchangeOf(entry)}
			if _, err := b.channel(t).QueueDeclare("failing", true, false, false, false, args); err != nil {
				t.Fatal(err)
			}
		},
		"leads to it": func(t *testing.T, b *bench, entry string) {
			t.Helper()
			if err := b.channel(t).ExchangeBind(b.EntryExchangeOf(entry), "", "amq.topic", false, nil); err != nil {
				t.Fatal(err)
			}
		},
		"it is the alternate exchange of": func(t *testing.T, b *bench, entry string) {
			t.Helper()
			args := amqp.Table{"alternate-exchange": b.EntryExchangeOf(entry)}
			if err := b.channel(t).ExchangeDeclare("theirs", "topic", true, false, false, false, args); err != nil {
				t.Fatal(err)
			}
		},
		"messages a second": func(t *testing.T, b *bench, entry string) {
			t.Helper()
			_, stop := b.traffic(t, b.EntryExchangeOf(entry), time.Minute)
			t.Cleanup(stop)
			eventually(t, "a rate", func() bool {
				_, left := b.prune(t, topology.PruneOptions{DryRun: true, Parked: nothingParked})
				return slices.ContainsFunc(left, func(l topology.Change) bool { return strings.Contains(l.Details, "messages a second") })
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.apply(t)
			had := b.existing(t)
			b.Topology = describe(t, topology.Config{Prefix: b.Prefix(), Tiers: []time.Duration{time.Second, 30 * time.Second}, Lead: time.Second, Shards: 1})
			use(t, b, "audit")
			removed, left := b.prune(t, topology.PruneOptions{Parked: nothingParked})
			if len(removed) != 0 {
				t.Errorf("deleted %v", removed)
			}
			if !slices.ContainsFunc(left, func(l topology.Change) bool {
				return l.Name == b.EntryExchangeOf("audit") && strings.Contains(l.Details, name)
			}) {
				t.Errorf("left: %+v", left)
			}
			if got := b.existing(t); !slices.Equal(got, had) {
				t.Errorf("there is %v, and was %v", got, had)
			}
		})
	}
}

// A bridge with another configuration would put back what is removed.
func TestPruneRefusesForBridges(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	old := b.before(t, topology.Entry{Name: "old", Kind: amqp.ExchangeTopic})
	had := b.existing(t)
	bridges := map[string]*topology.Topology{"new": b.Topology, "old": old, "silent": nil}
	options := topology.PruneOptions{
		Bridges: func(context.Context) (map[string]*topology.Topology, error) { return bridges, nil }, Parked: nothingParked,
	}
	removed, _, err := b.Prune(t.Context(), b.conn, b.management, options)
	var refused *topology.BridgesError
	if !errors.As(err, &refused) || len(removed) != 0 || !slices.Equal(b.existing(t), had) {
		t.Fatalf("deleted %v (%v)", removed, err)
	}
	if _, named := refused.Bridges["new"]; named || len(refused.Bridges) != 2 || !slices.Contains(refused.Bridges["old"], b.EntryExchangeOf("old")) {
		t.Errorf("refused for %v", refused.Bridges)
	}
	for _, want := range []string{"bridge old has ", "bridge silent does not tell its configuration", "restart it"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
	options.DryRun = true
	if _, left := b.prune(t, options); !slices.ContainsFunc(left, func(l topology.Change) bool { return l.Kind == "bridge" && l.Name == "old" }) {
		t.Errorf("a dry run does not name the bridge: %+v", left)
	}
	delete(bridges, "old")
	delete(bridges, "silent")
	options.DryRun = false
	b.wholly(t, options)
}

func TestPruneDryRunChangesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	old := b.before(t, topology.Entry{Name: "old", Kind: amqp.ExchangeTopic})
	tier, _ := old.Tier(4 * time.Second)
	had := b.existing(t)
	dry, left := b.prune(t, topology.PruneOptions{DryRun: true, Parked: func(context.Context, string) (int, error) { return 7, nil }})
	if got := b.existing(t); !slices.Equal(got, had) {
		t.Errorf("there is %v, and was %v", got, had)
	}
	if !slices.ContainsFunc(left, func(l topology.Change) bool { return strings.Contains(l.Details, "Redis has 7 messages") }) {
		t.Errorf("left: %+v", left)
	}
	place(t, dry, "queue", tier.Name)
	real := b.wholly(t, topology.PruneOptions{Parked: nothingParked})
	for _, c := range dry {
		place(t, real, c.Kind, c.Name)
	}
	if len(real) != len(dry) {
		t.Errorf("a dry run says %d changes, and there are %d", len(dry), len(real))
	}
}
