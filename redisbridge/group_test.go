package redisbridge_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

const groupHeader = "x-delay-group"

// parkIn parks a message that is a member of a group.
func (b *bench) parkIn(t *testing.T, group, entry, id string, w message.When) {
	t.Helper()
	b.parkThis(t, &message.Message{ID: id, Entry: entry, RoutingKey: "order.unpaid", Headers: amqp.Table{groupHeader: group}}, w)
}

// group returns the IDs of a group, sorted.
func group(t *testing.T, park *redisbridge.Park, name string) []string {
	t.Helper()
	ids := map[string]bool{}
	if err := park.Group(t.Context(), name, func(id string) bool { ids[id] = true; return true }); err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(ids))
}

func (b *bench) wantGroup(t *testing.T, name, ids string) {
	t.Helper()
	if got := strings.Join(group(t, b.park, name), " "); got != ids {
		t.Errorf("group %s has %q, want %q", name, got, ids)
	}
}

func TestGroupIsChangedAtOnce(t *testing.T) {
	t.Parallel()
	c := short()
	c.Entries = []topology.Entry{{Name: "orders", Kind: amqp.ExchangeTopic}}
	b := newBench(t, c)
	b.run(t, nil)
	for i := range 20 {
		b.parkIn(t, "order-77", "", fmt.Sprintf("o-%02d", i), message.After(time.Hour))
	}
	b.parkIn(t, "order-78", "", "another's", message.After(time.Hour))
	b.parkIn(t, "order-77", "orders", "another entry's", message.After(time.Hour))
	b.parkOne(t, "without", message.After(time.Hour))
	// Through the inbox, as other languages publish.
	b.publishEntry(t, amqp.Publishing{MessageId: "through the inbox", Headers: amqp.Table{"x-delay": int64(time.Hour / time.Millisecond), groupHeader: "order-77"}})
	b.parkedThere(t, "through the inbox")

	if change, err := b.park.RescheduleGroup(t.Context(), "order-77", message.After(2*time.Hour)); err != nil || !maps.Equal(change.Outcomes, map[redisbridge.Outcome]int{redisbridge.OutcomeDone: 21}) {
		t.Errorf("reschedule: %+v, %v", change, err)
	}
	if change, err := b.park.Cancel(t.Context(), "o-00"); err != nil || change.Outcome != redisbridge.OutcomeDone {
		t.Errorf("cancel: %+v, %v", change, err)
	}
	want := map[redisbridge.Outcome]int{redisbridge.OutcomeDone: 20, redisbridge.OutcomeCancelledBefore: 1}
	if change, err := b.park.CancelGroup(t.Context(), "order-77"); err != nil || !maps.Equal(change.Outcomes, want) {
		t.Errorf("cancel: %+v, %v, want %v", change, err, want)
	}
	for _, id := range []string{"another's", "without"} {
		b.lookUntil(t, id, redisbridge.StateParked)
	}
	if got := group(t, b.park.OfEntry("orders"), "order-77"); !slices.Equal(got, []string{"another entry's"}) {
		t.Errorf("the other entry's group has %q", got)
	}
	if change, err := b.park.CancelGroup(t.Context(), "nobody's"); err != nil || len(change.Outcomes) != 0 {
		t.Errorf("cancel an empty group: %+v, %v", change, err)
	}
	for _, name := range []string{"", strings.Repeat("g", 256)} {
		if _, err := b.park.CancelGroup(t.Context(), name); !errors.Is(err, redisbridge.ErrInvalid) {
			t.Errorf("group of %d bytes: %v", len(name), err)
		}
	}
}

// A group is cancelled in the lane, too, and afterwards nothing is left of it.
func TestGroupIsForgotten(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	b.run(t, func(c *redisbridge.Config) { c.RepairEvery = 200 * time.Millisecond })
	b.parkIn(t, "g", "", "soon", message.After(time.Second))
	b.parkIn(t, "g", "", "later", message.After(3*time.Second))
	if _, err := b.park.Reschedule(t.Context(), "later", message.After(5*time.Second)); err != nil {
		t.Fatal(err)
	}
	b.arrivals.awaitID(t, "soon")
	until(t, "the group is what waits", func() bool { return slices.Equal(group(t, b.park, "g"), []string{"later"}) })
	b.arrivals.awaitID(t, "later")
	until(t, "nothing is left of the group", func() bool {
		left := int64(0)
		b.sweepNow(t)
		for shard := range b.topology.Shards() {
			for _, key := range []string{"groups", "groups:g"} {
				n, err := b.client.Exists(t.Context(), fmt.Sprintf("{%s:%d}:%s", b.Prefix, shard, key)).Result()
				if err != nil {
					t.Fatal(err)
				}
				left += n
			}
		}
		return left == 0
	})
}

// sweepNow has bridges look now whether the members of groups have left, and not in a minute, as they would
// look again at one that had not.
func (b *bench) sweepNow(t *testing.T) {
	t.Helper()
	for shard := range b.topology.Shards() {
		key := fmt.Sprintf("{%s:%d}:groups", b.Prefix, shard)
		members, err := b.client.ZRangeWithScores(t.Context(), key, 0, -1).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, member := range members {
			if in := time.Until(time.UnixMilli(int64(member.Score))); in > time.Minute+time.Second {
				t.Errorf("whether a member of the group has left is looked at in %v", in)
			}
			member.Score = 0
			if err := b.client.ZAddXX(t.Context(), key, member).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Another message may have the ID by the time the group is cancelled.
func TestIDThatLeftItsGroup(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	b.run(t, nil)
	b.parkIn(t, "first", "", "o-1", message.After(300*time.Millisecond))
	b.arrivals.awaitID(t, "o-1")
	b.parkIn(t, "second", "", "o-1", message.After(time.Hour))
	b.wantGroup(t, "first", "")
	b.wantGroup(t, "second", "o-1")
	if change, err := b.park.CancelGroup(t.Context(), "first"); err != nil || len(change.Outcomes) != 0 {
		t.Errorf("cancel: %+v, %v", change, err)
	}
	b.lookUntil(t, "o-1", redisbridge.StateParked)
}

func TestWrongGroupIsQuarantined(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	b.run(t, nil)
	for name, wrong := range map[string]any{"a number": int64(7), "too long": strings.Repeat("g", 256), "empty": ""} {
		b.publishEntry(t, amqp.Publishing{MessageId: name, Headers: amqp.Table{"x-delay": int64(3_600_000), groupHeader: wrong}})
		if d := b.getFrom(t, b.topology.Quarantine()); d.MessageId != name || !strings.Contains(fmt.Sprint(d.Headers["x-delaybridge-error"]), groupHeader) {
			t.Errorf("%s: in quarantine: %+v", name, d)
		}
		m := message.Message{ID: name, RoutingKey: "k", Headers: amqp.Table{groupHeader: wrong}}
		if err := m.Validate(); err == nil || !strings.Contains(err.Error(), groupHeader) {
			t.Errorf("%s: Validate: %v", name, err)
		}
	}
}

func TestCommandsForAGroup(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	b.run(t, nil)
	b.parkIn(t, "g", "", "o-1", message.After(time.Hour))
	b.parkIn(t, "g", "", "o-2", message.After(time.Hour))
	ask := b.commander(t)
	list := ask.results("get", `{"group": "g"}`)
	slices.SortFunc(list, func(a, b described) int { return strings.Compare(a.ID, b.ID) })
	if got := said(list); got != "o-1 parked, o-2 parked" {
		t.Errorf("get: %s", got)
	}
	for _, tc := range []struct{ kind, body, want string }{
		{"reschedule", `{"group": "g", "in": "2h"}`, `{"results":[{"group":"g","messages":2,"outcomes":{"rescheduled":2}}]}`},
		{"cancel", `{"group": "g"}`, `{"results":[{"group":"g","messages":2,"outcomes":{"cancelled":2}}]}`},
		{"cancel", `{"group": "nobody's"}`, `{"results":[{"group":"nobody's","messages":0,"outcomes":{}}]}`},
		{"cancel", `{"group": "g", "ids": ["o-1"]}`, `{"error":"the body has both ids and group: use one of them"}`},
	} {
		if got := ask.ask(tc.kind, tc.body); got != tc.want {
			t.Errorf("%s %s: %s, want %s", tc.kind, tc.body, got, tc.want)
		}
	}
}
