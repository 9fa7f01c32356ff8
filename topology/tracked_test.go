package topology_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/topology"
)

// tracking describes a topology with tracked entries, or not. Its longer tier holds
// messages for as long as any test takes.
func (b *bench) tracking(t testing.TB, tracked bool) *topology.Topology {
	t.Helper()
	return describe(t, topology.Config{
		Prefix: b.Prefix(), Tiers: []time.Duration{time.Second, time.Hour}, Lead: time.Second, Shards: 1,
		Entries: []topology.Entry{{Name: "audit", Kind: amqp.ExchangeFanout, Tracked: tracked}}, Tracked: tracked,
	})
}

func TestATrackedEntryHasNoBindings(t *testing.T) {
	t.Parallel()
	top := describe(t, topology.Config{
		Entries: []topology.Entry{{Name: "orders", Kind: amqp.ExchangeTopic, Tracked: true}, {Name: "audit", Kind: amqp.ExchangeFanout}},
	})
	bound := map[string]bool{}
	for _, b := range top.Bindings() {
		bound[b.Source] = true
	}
	for entry, tracked := range map[string]bool{"": false, "audit": false, "orders": true, "unknown": false} {
		if got := top.IsTracked(entry); got != tracked {
			t.Errorf("entry %q: tracked %v", entry, got)
		}
		if entry != "unknown" && bound[top.EntryExchangeOf(entry)] == tracked {
			t.Errorf("entry %q: bound %v, tracked %v", entry, !tracked, tracked)
		}
	}
	if top = describe(t, topology.Config{Tracked: true}); !top.IsTracked("") {
		t.Error("the default entry is not tracked")
	}
}

// Nothing but the broker is running: what is published stays in the inbox.
func TestWhatIsPublishedToATrackedEntryGoesToTheInbox(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Topology = b.tracking(t, true)
	b.apply(t)
	b.verifiedWithout(t)
	for _, entry := range []string{"", "audit"} {
		for id, headers := range map[string]amqp.Table{
			"a tier": {"x-delay": int64(1000)}, "no tier": {"x-delay": int64(700)}, "zero": {"x-delay": int64(0)}, "none": nil,
		} {
			b.publish(t, b.EntryExchangeOf(entry), "order.created", amqp.Publishing{MessageId: entry + id, Headers: headers})
			if got := b.await(t, b.Inbox()); got.MessageId != entry+id || got.Exchange != b.EntryExchangeOf(entry) {
				t.Errorf("entry %q, %s: got %q of %s", entry, id, got.MessageId, got.Exchange)
			}
		}
	}
	for _, q := range b.Queues() {
		if n := b.ready(t, q.Name); n != 0 {
			t.Errorf("%d messages in %s", n, q.Name)
		}
	}
}

// What is in a tier when tracking is turned on comes out of it, what is published next
// goes to the inbox; and once it is turned off again, to the tier.
func TestTrackingIsTurnedOnAndOff(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*testing.T, *bench){
		"apply": func(t *testing.T, b *bench) {
			t.Helper()
			b.apply(t)
		},
		"repair": func(t *testing.T, b *bench) {
			t.Helper()
			if created, err := b.Repair(t.Context(), b.conn); err != nil || len(created) != 0 {
				t.Fatalf("created %v (%v)", created, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.Topology = b.tracking(t, false)
			b.apply(t)
			publish := func(id, entry string, delay int64) {
				b.publish(t, b.EntryExchangeOf(entry), "order.created", amqp.Publishing{MessageId: id, Headers: amqp.Table{"x-delay": delay}})
			}
			publish("1", "", 1000)
			publish("2", "audit", 3600000)
			tracked, before := b.tracking(t, true), b.Topology
			b.Topology = tracked
			b.drifted(t, "bypasses", func(d topology.Drift) bool { return d.Surplus() && d.Path == "" })
			change(t, b)
			b.verifiedWithout(t)
			publish("3", "", 1000)
			publish("4", "audit", 3600000)
			if got := []string{b.await(t, b.Inbox()).MessageId, b.await(t, b.Inbox()).MessageId}; !slices.Equal(got, []string{"3", "4"}) {
				t.Errorf("in the inbox: %v", got)
			}
			if got := b.await(t, b.Unrouted()).MessageId; got != "1" {
				t.Errorf("out of the tier: %s", got)
			}

			b.Topology = before
			b.drifted(t, "missing", topology.Drift.Missing)
			change(t, b)
			b.verifiedWithout(t)
			publish("5", "audit", 3600000)
			for _, want := range []string{"2", "5"} {
				if got := b.await(t, b.Prefix()+".tier.1h.entries").MessageId; got != want {
					t.Errorf("in the tier of 1h: %s, want %s", got, want)
				}
			}
		})
	}
}

// drifted expects that the bindings of both entries' exchanges differ, as is says, and
// that apply is the remedy.
func (b *bench) drifted(t *testing.T, what string, is func(topology.Drift) bool) {
	t.Helper()
	drifts := b.verify(t)
	if len(drifts) != 6 { // of two entries: two tiers, and no delay
		t.Errorf("%s: %d differences, want 6: %+v", what, len(drifts), drifts)
	}
	for _, d := range drifts {
		if d.Kind != "binding" || !strings.HasPrefix(d.Name, b.EntryExchange()) || !is(d) || d.Remedy != "delaybridge topology apply" {
			t.Errorf("%s: %+v", what, d)
		}
	}
}
