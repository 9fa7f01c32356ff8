package redisbridge_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// lookUp looks an ID up that is known.
func (b *bench) lookUp(t *testing.T, id string) redisbridge.MessageState {
	t.Helper()
	e, known, err := lookUp(b.park.Get(t.Context(), id))
	if err != nil || !known {
		t.Fatalf("look up %s: known %v, %v", id, known, err)
	}
	return e
}

// lookUntil looks an ID up until it is in a state.
func (b *bench) lookUntil(t *testing.T, id string, want redisbridge.State) redisbridge.MessageState {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		e := b.lookUp(t, id)
		if e.State == want {
			return e
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is %s, not %s", id, e.State, want)
		}
	}
}

func TestLook(t *testing.T) {
	t.Parallel()
	b := newBench(t, topology.Config{Tiers: []time.Duration{time.Second, 20 * time.Second, time.Minute}, Lead: time.Minute, Shards: 2})
	m := &message.Message{ID: "o-1", RoutingKey: "order.unpaid", Type: "t", Body: []byte("body"), Headers: map[string]any{"shop": "x"}}
	due := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	if _, err := b.park.Park(t.Context(), m, message.At(due)); err != nil {
		t.Fatal(err)
	}
	e := b.lookUp(t, "o-1")
	if e.State != redisbridge.StateParked || !e.Due.Equal(due) || !e.PromoteAt.Equal(due.Add(-time.Minute)) || e.Lane != time.Minute ||
		e.Path != message.Path("parked, then lane 1m") || string(e.Message.Body) != "body" || e.Message.Headers["shop"] != "x" ||
		e.Shard != redisbridge.ShardIn(b.topology, "o-1") || !e.Rescheduled.IsZero() || time.Since(e.Published).Abs() > patience {
		t.Errorf("parked: got %+v", e)
	}
	published := e.Published
	for time.Now().UnixMilli() == published.UnixMilli() {
		runtime.Gosched() // in the same millisecond it would not show
	}
	if c, err := b.park.Reschedule(t.Context(), "o-1", message.After(30*time.Second)); err != nil || c.Outcome != redisbridge.OutcomeDone {
		t.Fatalf("reschedule: got %+v, %v", c, err)
	}
	e = b.lookUp(t, "o-1")
	if e.State != redisbridge.StateParked || e.Lane != 20*time.Second || !e.Published.Equal(published) || e.Rescheduled.Before(published) {
		t.Errorf("rescheduled: got %+v", e)
	}
	if c, err := b.park.Cancel(t.Context(), "o-1"); err != nil || c.Outcome != redisbridge.OutcomeDone {
		t.Fatalf("cancel: got %+v, %v", c, err)
	}
	e = b.lookUp(t, "o-1")
	if e.State != redisbridge.StateCancelled || e.Ended.Before(published) || !e.Published.Equal(published) || e.Path != "" || e.Message.RoutingKey != "" {
		t.Errorf("cancelled: got %+v", e)
	}

	b.parkOne(t, "soon", message.After(900*time.Millisecond))
	if e := b.lookUp(t, "soon"); e.Lane != 0 || e.Path != wire.ReadyPath {
		t.Errorf("shorter than every tier: got %+v", e)
	}
	if _, known, err := lookUp(b.park.Get(t.Context(), "never was")); known || err != nil {
		t.Errorf("an ID that nobody knows: got %v, %v", known, err)
	}
	if c, err := b.park.Reschedule(t.Context(), "in a tier", message.After(time.Hour)); err != nil || c.Outcome != redisbridge.OutcomeRecorded {
		t.Fatalf("reschedule what is unknown: got %+v, %v", c, err)
	}
	if e := b.lookUp(t, "in a tier"); e.State != redisbridge.StateMoved || !e.Published.IsZero() || e.Rescheduled.IsZero() {
		t.Errorf("rescheduled on its way: got %+v", e)
	}
	for _, id := range []string{"", strings.Repeat("x", 256)} {
		if _, _, err := lookUp(b.park.Get(t.Context(), id)); !errors.Is(err, redisbridge.ErrInvalid) {
			t.Errorf("an ID of %d bytes: got %v, want ErrInvalid", len(id), err)
		}
	}
}

// A message is followed from the schedule to its consumer.
func TestLookFollowsAMessage(t *testing.T) {
	t.Parallel()
	b := newBench(t, topology.Config{Tiers: []time.Duration{time.Second, 20 * time.Second}, Lead: 20 * time.Second, Shards: 1})
	b.parkOne(t, "o-1", message.After(21*time.Second))
	bridge, err := redisbridge.New(redisbridge.Config{Client: b.client, AMQPURL: b.AMQPURL, Topology: b.topology, Lease: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for claimed := 0; claimed == 0; { // until its promotion
		if claimed, err = redisbridge.ClaimAndVanish(t.Context(), bridge, 0); err != nil {
			t.Fatal(err)
		}
	}
	if e := b.lookUp(t, "o-1"); e.State != redisbridge.StatePromoting || e.Lane != 20*time.Second || e.PromoteAt.IsZero() {
		t.Errorf("claimed: got %+v", e)
	}
	if all := b.list(t, redisbridge.Filter{}); len(all) != 1 || all[0].State != redisbridge.StatePromoting {
		t.Errorf("claimed: listed are %+v", all)
	}
	b.run(t, func(c *redisbridge.Config) { c.Window = time.Hour })
	if e := b.lookUntil(t, "o-1", redisbridge.StateInLane); e.Path != message.Path("parked, then lane 20s") || e.Message.RoutingKey != "order.unpaid" {
		t.Errorf("in its lane: got %+v", e)
	}
	b.lookUntil(t, "o-1", redisbridge.StateDue)
	arrived := b.arrivals.await(t, 1, patience)["o-1"][0].Message
	if a, err := b.park.Arrive(t.Context(), &arrived); err != nil || a.Because() != isWanted {
		t.Fatalf("arrive: got %+v, %v", a, err)
	}
	if e := b.lookUp(t, "o-1"); e.State != redisbridge.StateDelivered || e.Ended.Before(e.Due) || e.Path != message.Path("parked, then lane 20s") || len(e.Handled) != 0 {
		t.Errorf("delivered: got %+v", e)
	}
	b.tellOfHandling(t, &arrived)
	c, err := b.park.Stats(t.Context(), redisbridge.StatsOptions{Exact: true})
	if err != nil || c.Shards[0].Delivered != 1 || c.Shards[0].InLane+c.Shards[0].Due+c.Shards[0].Promoting != 0 {
		t.Errorf("count: got %+v, %v", c, err)
	}
}

// tellOfHandling has the consumers of nine queues tell of a message that was delivered.
func (b *bench) tellOfHandling(t *testing.T, m *message.Message) {
	t.Helper()
	now := time.Now()
	failed := message.Handling{Queue: "a\tqueue\n", Attempts: 1, Outcome: "delayed", At: now, RetryAt: now.Add(time.Hour), History: []string{"1", "2", "3", "4", "5", "6"}}
	for i := range 9 {
		h := failed
		if i > 0 {
			h = message.Handling{Queue: fmt.Sprint("queue ", i), Attempts: 1, Outcome: "quarantined", At: now}
		}
		for range 2 { // the second note takes the place of the first
			if err := b.park.Handled(t.Context(), m, h); err != nil {
				t.Fatal(err)
			}
			h.Attempts++
		}
	}
	earlier := failed
	earlier.At, earlier.Attempts = now.Add(-time.Second), 7
	for _, h := range []message.Handling{failed, earlier} {
		if err := b.park.Handled(t.Context(), m, h); err != nil {
			t.Fatal(err)
		}
	}
	e := b.lookUp(t, "o-1")
	if len(e.Handled) != 8 || e.State != redisbridge.StateDelivered || e.Path != message.Path("parked, then lane 20s") {
		t.Fatalf("handled: got %+v, want notes of 8 queues", e)
	}
	if got := e.Handled[0]; got.Queue != failed.Queue || got.Attempts != 1 || got.RetryAt.Sub(failed.RetryAt).Abs() > time.Millisecond || !slices.Equal(got.History, failed.History[1:]) {
		t.Errorf("the last note is %+v, want %+v with the last 5 lines", got, failed)
	}
	if got := e.Handled[1]; got.Queue != "queue 8" || got.Attempts != 2 {
		t.Errorf("the note before is %+v", got)
	}
	other := *m
	other.Journey.Published = other.Journey.Published.Add(-time.Minute)
	for _, m := range []*message.Message{{ID: "never was"}, &other} { // of which there is nothing to tell
		if err := b.park.Handled(t.Context(), m, message.Handling{Queue: "another"}); err != nil {
			t.Error(err)
		}
	}
	if _, known, err := lookUp(b.park.Get(t.Context(), "never was")); known || err != nil {
		t.Errorf("an ID that nobody knows: got %v, %v", known, err)
	}
	if e := b.lookUp(t, "o-1"); e.Handled[0].Queue != failed.Queue {
		t.Errorf("another message's note was taken: %+v", e.Handled[0])
	}
}

func (b *bench) list(t *testing.T, f redisbridge.Filter) []redisbridge.MessageState {
	t.Helper()
	return listOf(t, b.park, f)
}

// listOf lists, and checks the order.
func listOf(t *testing.T, p *redisbridge.Park, f redisbridge.Filter) (all []redisbridge.MessageState) {
	t.Helper()
	for e, err := range p.List(t.Context(), f) {
		if err != nil {
			t.Fatal(err)
		}
		if n := len(all); n > 0 && e.Due.Before(all[n-1].Due) {
			t.Fatalf("%s, %s, is listed after %s, %s, and due %v earlier", e.ID, e.State, all[n-1].ID, all[n-1].State, all[n-1].Due.Sub(e.Due))
		}
		all = append(all, e)
	}
	return all
}

// fill parks many messages at a time.
func (b *bench) fill(t *testing.T, n int, one func(i int) (id, key string, w message.When)) {
	t.Helper()
	var all sync.WaitGroup
	for hand := range 50 {
		all.Go(func() {
			for i := hand; i < n; i += 50 {
				id, key, w := one(i)
				if _, err := b.park.Park(t.Context(), &message.Message{ID: id, RoutingKey: key, Body: []byte(id)}, w); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// Many are due in one millisecond, so that pages end in the middle of a bucket, others in
// all parts of the schedule.
func TestList(t *testing.T) {
	t.Parallel()
	const n = 3000
	b := newBenchAt(t, topology.Config{Tiers: []time.Duration{time.Second, 5 * time.Second, time.Minute}, Lead: time.Minute, Shards: 3}, servertest.ForTest(t))
	start := time.Now().Add(time.Hour).Truncate(time.Second)
	due := func(i int) time.Time {
		if i%2 == 0 {
			return start
		}
		return start.Add(time.Duration(i*i%100_000) * time.Millisecond)
	}
	b.fill(t, n, func(i int) (string, string, message.When) {
		return fmt.Sprintf("order-%d", i), []string{"order.unpaid", "order.paid", "mail"}[i%3], message.At(due(i))
	})
	b.fill(t, 30, func(i int) (string, string, message.When) { // for the other parts
		return fmt.Sprintf("soon-%d", i), "mail", message.After(time.Duration(i)*2*time.Second + 30*time.Second)
	})
	ids := func(keep func(i int) bool) (ids []string) {
		for i := range n {
			if keep(i) {
				ids = append(ids, fmt.Sprintf("order-%d", i))
			}
		}
		return ids
	}
	for name, c := range map[string]struct {
		filter redisbridge.Filter
		want   []string
	}{
		"from":        {redisbridge.Filter{From: start}, ids(func(int) bool { return true })},
		"after":       {redisbridge.Filter{From: start.Add(time.Millisecond)}, ids(func(i int) bool { return due(i).After(start) })},
		"one instant": {redisbridge.Filter{From: start, Until: start.Add(time.Millisecond)}, ids(func(i int) bool { return due(i).Equal(start) })},
		"a minute": {redisbridge.Filter{From: start.Add(20 * time.Second), Until: start.Add(80 * time.Second)}, ids(func(i int) bool {
			return !due(i).Before(start.Add(20*time.Second)) && due(i).Before(start.Add(80*time.Second))
		})},
		"key":                {redisbridge.Filter{RoutingKey: "order.paid"}, ids(func(i int) bool { return i%3 == 1 })},
		"prefix":             {redisbridge.Filter{IDPrefix: "order-12"}, ids(func(i int) bool { return strings.HasPrefix(strconv.Itoa(i), "12") })},
		"prefix and key":     {redisbridge.Filter{IDPrefix: "order-12", RoutingKey: "mail"}, ids(func(i int) bool { return i%3 == 2 && strings.HasPrefix(strconv.Itoa(i), "12") })},
		"parked":             {redisbridge.Filter{State: redisbridge.StateParked, From: start}, ids(func(int) bool { return true })},
		"nobody's key":       {redisbridge.Filter{RoutingKey: "order.*"}, nil},
		"in a lane":          {redisbridge.Filter{State: redisbridge.StateInLane}, nil},
		"being promoted":     {redisbridge.Filter{State: redisbridge.StatePromoting}, nil},
		"long ago":           {redisbridge.Filter{Until: time.UnixMilli(1)}, nil},
		"in a hundred years": {redisbridge.Filter{From: start.AddDate(100, 0, 0)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, e := range b.list(t, c.filter) {
				if e.State != redisbridge.StateParked || e.Message.RoutingKey == "" || e.Message.Body != nil {
					t.Errorf("%s: got %+v", e.ID, e)
				}
				got = append(got, e.ID)
			}
			if !sameIDs(got, c.want) {
				t.Errorf("%d IDs, want %d: %.300v", len(got), len(c.want), got)
			}
		})
	}
	t.Run("all", func(t *testing.T) {
		t.Parallel()
		if got := b.list(t, redisbridge.Filter{}); len(got) != n+30 {
			t.Errorf("%d messages, want %d", len(got), n+30)
		}
	})
	t.Run("count", func(t *testing.T) {
		t.Parallel()
		c, err := b.park.Stats(t.Context(), redisbridge.StatsOptions{Exact: true})
		if err != nil {
			t.Fatal(err)
		}
		parked := map[time.Duration]int{}
		for _, shard := range c.Shards {
			for lane, n := range shard.Parked {
				parked[lane] += n
			}
		}
		var late, next time.Time // by that clock: some may be late on a slow machine
		for _, e := range slices.Backward(b.list(t, redisbridge.Filter{})) {
			if e.Due.Before(c.Now) {
				late = e.Due
			} else {
				next = e.Due
			}
		}
		if parked[time.Minute] < n || parked[time.Minute]+parked[5*time.Second] != n+30 || len(c.Bridges) != 0 ||
			!c.NextDue.Equal(next) || !c.OldestLate.Equal(late) {
			t.Errorf("got %v, %+v; want next %v, late %v", parked, c, next, late)
		}
	})
	t.Run("some", func(t *testing.T) {
		t.Parallel()
		n := 0
		for range b.park.List(t.Context(), redisbridge.Filter{}) {
			if n++; n == 5 {
				break
			}
		}
	})
	t.Run("a wrong state", func(t *testing.T) {
		t.Parallel()
		for _, err := range b.park.List(t.Context(), redisbridge.Filter{State: "lost"}) {
			if !errors.Is(err, redisbridge.ErrInvalid) {
				t.Errorf("got %v, want ErrInvalid", err)
			}
		}
	})
}

// sameIDs compares, whatever the order.
func sameIDs(got, want []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want)))
}

// While messages are promoted, and while they are taken out at the very place where the
// list is, each that waits before and after is listed, once.
func TestListWhileMessagesMove(t *testing.T) {
	t.Parallel()
	for _, window := range []time.Duration{0, time.Hour} {
		t.Run(window.String(), func(t *testing.T) {
			t.Parallel()
			const n = 3000
			// In the lanes for as long as this test takes.
			b := newBenchAt(t, topology.Config{Tiers: []time.Duration{time.Second, 10 * time.Minute}, Lead: 10 * time.Minute, Shards: 2}, servertest.ForTest(t))
			park, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: b.client, Topology: b.topology, Window: window})
			if err != nil {
				t.Fatal(err)
			}
			// By the delay that is left when it is parked, each is meant for the long lane.
			b.fill(t, n, func(i int) (string, string, message.When) {
				return fmt.Sprintf("m-%d", i), "k", message.After(10*time.Minute + 10*time.Second + time.Duration(i)*2*time.Millisecond)
			})
			b.run(t, func(c *redisbridge.Config) { c.Window = window })
			parked, inLane := 0, 0
			for deadline := time.Now().Add(patience); inLane < n; {
				if time.Now().After(deadline) {
					t.Fatalf("%d in lanes, want %d", inLane, n)
				}
				seen := map[string]bool{}
				inLane = 0
				for _, e := range listOf(t, park, redisbridge.Filter{}) {
					if seen[e.ID] {
						t.Errorf("%s is listed twice", e.ID)
					}
					seen[e.ID] = true
					switch e.State {
					case redisbridge.StateInLane:
						inLane++
					case redisbridge.StateParked:
						parked++
					default:
					}
				}
				// With a window, what enters a lane at the wrong moment may be missing.
				if len(seen) > n || len(seen) < n && window == 0 {
					t.Errorf("%d messages, want %d", len(seen), n)
				}
			}
			if parked == 0 {
				t.Log("nothing was listed before its promotion, so this has tested little")
			}
			if got := listOf(t, park, redisbridge.Filter{}); len(got) != n {
				t.Errorf("%d messages in the end, want %d", len(got), n)
			}
			for i := range n / 10 {
				if _, err := park.Cancel(t.Context(), fmt.Sprintf("m-%d", 10*i)); err != nil {
					t.Fatal(err)
				}
				if _, err := park.Reschedule(t.Context(), fmt.Sprintf("m-%d", 10*i+1), message.After(10*time.Minute+time.Second)); err != nil {
					t.Fatal(err)
				}
			}
			for deadline := time.Now().Add(patience); ; {
				got := listOf(t, park, redisbridge.Filter{State: redisbridge.StateInLane})
				if len(got) == n-n/10 {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("%d messages without those that were cancelled, want %d", len(got), n-n/10)
				}
			}
		})
	}
}

// A page goes on after an ID that is gone by then, among others of the same instant.
func TestListGoesOnAfterWhatIsGone(t *testing.T) {
	t.Parallel()
	const n = 1500
	b := newBenchAt(t, topology.Config{Shards: 1}, servertest.ForTest(t))
	due := time.Now().Add(time.Hour)
	b.fill(t, n, func(i int) (string, string, message.When) {
		return fmt.Sprintf("ümlaut-%04d", i), "k", message.At(due)
	})
	got := map[string]int{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for e, err := range b.park.List(ctx, redisbridge.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		got[e.ID]++
		if _, err := b.park.Cancel(t.Context(), e.ID); err != nil {
			t.Fatal(err)
		}
	}
	if len(got) != n {
		t.Errorf("%d messages, want %d", len(got), n)
	}
	for id, times := range got {
		if times != 1 {
			t.Errorf("%s is listed %d times", id, times)
		}
	}
	if left := b.list(t, redisbridge.Filter{}); len(left) != 0 {
		t.Errorf("%d messages are left", len(left))
	}
}

// What cannot be read is listed, and says why.
func TestUnreadableMessageIsListed(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, topology.Config{Shards: 1}, servertest.ForTest(t))
	b.parkOne(t, "o-1", message.After(time.Hour))
	key := redisbridge.EnvelopesOf(b.topology, "o-1")
	stored, err := b.client.HGet(t.Context(), key, "o-1").Result()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.client.HSet(t.Context(), key, "o-1", stored[:14]+"\xff"+strings.Repeat("?", len(stored)-15)).Err(); err != nil {
		t.Fatal(err)
	}
	if e := b.lookUp(t, "o-1"); !errors.Is(e.Unreadable, wire.ErrEnvelope) || e.State != redisbridge.StateParked {
		t.Errorf("got %+v, want ErrEnvelope", e)
	}
	if all := b.list(t, redisbridge.Filter{}); len(all) != 1 || !errors.Is(all[0].Unreadable, wire.ErrEnvelope) || all[0].Due.IsZero() {
		t.Errorf("listed: %+v", all)
	}
	if all := b.list(t, redisbridge.Filter{RoutingKey: "order.unpaid"}); len(all) != 0 {
		t.Errorf("listed by a key that nobody can read: %+v", all)
	}
}

// A stale entry (lua/lib.lua) lists a message neither twice nor at a wrong time, and its
// only one does not hide it.
func TestStaleEntriesAreNotListed(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, short(), servertest.ForTest(t))
	due := map[string]time.Time{}
	for i, off := range []time.Duration{-time.Hour, -2500 * time.Millisecond, -time.Millisecond, 0, time.Millisecond, 2 * time.Second, time.Hour} {
		id := fmt.Sprint("m-", i)
		due[id] = b.parkOne(t, id, message.After(2*time.Hour))
		if err := redisbridge.LeaveEntry(t.Context(), b.park, id, due[id].Add(off)); err != nil {
			t.Fatal(err)
		}
	}
	all := b.list(t, redisbridge.Filter{})
	for _, e := range all {
		if !e.Due.Equal(due[e.ID]) || e.Message.RoutingKey != "order.unpaid" {
			t.Errorf("%s: got %+v, want due %v", e.ID, e, due[e.ID])
		}
		delete(due, e.ID)
	}
	if len(due) > 0 || len(all) != 7 {
		t.Errorf("%d listed, missing: %v", len(all), due)
	}
}

// Count tells where messages are, and what is late.
func TestCount(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, short(), servertest.ForTest(t))
	past := b.parkOne(t, "late", message.After(time.Second))
	future := b.parkOne(t, "in an hour", message.After(time.Hour))
	for _, id := range []string{"c-1", "c-2"} {
		b.parkOne(t, id, message.After(time.Hour))
		if _, err := b.park.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.park.Reschedule(t.Context(), "in a tier", message.After(time.Hour)); err != nil {
		t.Fatal(err)
	}
	var c redisbridge.Stats
	for deadline := time.Now().Add(patience); c.OldestLate.IsZero(); {
		var err error
		if c, err = b.park.Stats(t.Context(), redisbridge.StatsOptions{Exact: true}); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing is late: %+v", c)
		}
	}
	var sum redisbridge.ShardStats
	parked := map[time.Duration]int{}
	for _, s := range c.Shards {
		for lane, n := range s.Parked {
			parked[lane] += n
		}
		sum.Cancelled += s.Cancelled
		sum.Moved += s.Moved
		sum.Delivered += s.Delivered
	}
	if !c.OldestLate.Equal(past) || !c.NextDue.Equal(future) || parked[2*time.Second] != 1 || len(parked) != 2 ||
		sum.Cancelled != 2 || sum.Moved != 1 || sum.Delivered != 0 || len(c.Shards) != 2 || len(c.Bridges) != 0 {
		t.Errorf("got %+v; parked %v", c, parked)
	}
	b.run(t, func(c *redisbridge.Config) { c.Name = "counted" })
	for deadline := time.Now().Add(patience); ; {
		c, err := b.park.Stats(t.Context(), redisbridge.StatsOptions{Exact: true})
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Bridges) == 1 && strings.HasPrefix(c.Bridges[0].ID, "counted-") && c.Shards[0].Owner == c.Bridges[0].ID && c.OldestLate.IsZero() {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("with a bridge: %+v", c)
		}
	}
}
