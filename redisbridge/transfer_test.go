package redisbridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// exported returns what a park holds, by name, having gone through JSON as lines of a file do.
func exported(t *testing.T, park *redisbridge.Park) map[string]redisbridge.Stored {
	t.Helper()
	all := map[string]redisbridge.Stored{}
	last := 0.0
	for one, err := range park.Export(t.Context(), func(done float64) { last = done }) {
		if err != nil {
			t.Fatal(err)
		}
		line, err := json.Marshal(one)
		var back redisbridge.Stored
		if err := errors.Join(err, json.Unmarshal(line, &back)); err != nil {
			t.Fatal(err)
		}
		if _, twice := all[string(back.Name)]; twice {
			t.Errorf("%q was exported twice", back.Name)
		}
		all[string(back.Name)] = back
	}
	if last != 1 {
		t.Errorf("%v of it was read", last)
	}
	return all
}

// importAll imports all, and returns what came of it by name. Names beside an ID begin with a byte of 1, and come last.
func importAll(t *testing.T, park *redisbridge.Park, all map[string]redisbridge.Stored) map[string]message.Parking {
	t.Helper()
	came := map[string]message.Parking{}
	names := slices.Collect(maps.Keys(all))
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(b, a) })
	for _, name := range names {
		parking, err := park.Import(t.Context(), all[name])
		if err != nil {
			t.Fatal(err)
		}
		came[name] = parking
	}
	return came
}

// What was exported is the same after an import into another prefix with other shards: messages, those beside
// one with their ID, retries, versions and what was cancelled. A second import changes nothing.
func TestExportAndImport(t *testing.T) {
	t.Parallel()
	c := topology.Config{Tiers: []time.Duration{time.Second, time.Minute}, Lead: time.Minute, Shards: 3, Entries: []topology.Entry{{Name: "orders", Kind: "topic"}}}
	from := newBench(t, c)
	hour := message.After(time.Hour)
	m := &message.Message{
		ID: "o-1", Entry: "orders", RoutingKey: "order.unpaid", Body: []byte{0xff, 0}, ContentType: "application/json", Priority: 3,
		Headers: map[string]any{"shop": "x", "small": int8(1), "at": time.Unix(1, 0), "x-delay-group": "cart"},
	}
	retried := *m
	retried.Journey = message.Journey{Queue: "billing", Attempts: 2, Published: time.Now().Add(-time.Minute).Truncate(time.Millisecond)}
	_, parked := from.park.Park(t.Context(), m, hour)
	_, plain := from.park.Park(t.Context(), &message.Message{ID: "o-2", RoutingKey: "k"}, message.At(time.Now().Add(48*time.Hour)))
	_, cancelled := from.park.Cancel(t.Context(), "o-3")
	_, again := from.park.Reschedule(t.Context(), "o-2", message.After(50*time.Hour))
	if err := errors.Join(parked, plain, cancelled, again, from.park.Delay(t.Context(), &retried, time.Hour)); err != nil {
		t.Fatal(err)
	}
	beside := newBench(t, c) // where a message with the same ID waits
	if _, err := beside.park.Park(t.Context(), &message.Message{ID: "o-2", RoutingKey: "another"}, hour); err != nil {
		t.Fatal(err)
	}
	importAll(t, from.park, exported(t, beside.park))
	all := exported(t, from.park)
	if len(all) != 5 {
		t.Fatalf("got %v", all)
	}

	c.Shards = 7
	to := newBench(t, c)
	for name, parking := range importAll(t, to.park, all) {
		want := message.Parked
		if all[name].State == redisbridge.StateCancelled {
			want = message.CancelledBefore
		}
		if parking != want {
			t.Errorf("%q: got %v, want %v", name, parking, want)
		}
	}
	there := exported(t, to.park)
	for name, want := range all {
		got := there[name]
		if want.State == redisbridge.StateCancelled {
			if got.State != want.State {
				t.Errorf("%s: got %+v", want.ID, got)
			}
			continue
		}
		message, err := got.Message()
		original, failed := want.Message()
		if errors.Join(err, failed) != nil || fmt.Sprint(message) != fmt.Sprint(original) || !got.Due.Equal(want.Due) || !got.Published.Equal(want.Published) ||
			got.Version != want.Version || got.State != want.State || got.ID != want.ID || got.Entry != want.Entry {
			t.Errorf("got %+v\n%+v (%v), want %+v\n%+v (%v)", got, message, err, want, original, failed)
		}
	}
	for name, parking := range importAll(t, to.park, all) {
		if parking != message.ParkedBefore && parking != message.CancelledBefore {
			t.Errorf("%q a second time: got %v", name, parking)
		}
	}
	if both, err := to.park.GetAll(t.Context(), "o-2"); err != nil || len(both) != 2 {
		t.Errorf("two messages with an ID: got %+v, %v", both, err)
	}
	// Its publisher's repetition is known, though the due time is an instant now, and so is its group.
	if ticket, err := to.park.Park(t.Context(), m, hour); err != nil || ticket.Parking != message.ParkedBefore {
		t.Errorf("a repetition: got %+v, %v", ticket, err)
	}
	if changes, err := to.park.OfEntry("orders").CancelGroup(t.Context(), "cart"); err != nil || changes.Outcomes[redisbridge.OutcomeDone] != 1 {
		t.Errorf("its group: got %+v, %v", changes, err)
	}
}

// Of what is no message nothing is stored.
func TestImportRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t, topology.Config{})
	if _, err := b.park.Park(t.Context(), &message.Message{ID: "o-1", RoutingKey: "k"}, message.After(time.Hour)); err != nil {
		t.Fatal(err)
	}
	good := exported(t, b.park)["o-1"]
	to := newBench(t, topology.Config{})
	for name, change := range map[string]func(*redisbridge.Stored){
		"cut off":          func(s *redisbridge.Stored) { s.Record = s.Record[:10] },
		"nothing":          func(s *redisbridge.Stored) { *s = redisbridge.Stored{} },
		"an unknown entry": func(s *redisbridge.Stored) { s.Entry = "orders" },
		"no envelope":      func(s *redisbridge.Stored) { s.Record = s.Record[:22] },
		"another's name":   func(s *redisbridge.Stored) { s.Name = []byte("\x02orders\x02o-1") },
	} {
		bad := good
		bad.Record = slices.Clone(good.Record)
		change(&bad)
		if _, err := to.park.Import(t.Context(), bad); !errors.Is(err, redisbridge.ErrInvalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if all := exported(t, to.park); len(all) != 0 {
		t.Errorf("stored: %v", all)
	}
}

// While others publish and a bridge promotes, an export has all that waits from its beginning to its end, and
// an import of it loses nothing: what is overdue meanwhile comes, too.
func TestExportUnderLoad(t *testing.T) {
	t.Parallel()
	b := newBench(t, topology.Config{Tiers: []time.Duration{time.Second}, Lead: time.Second, Shards: 2})
	b.run(t, nil)
	const waiting = 500
	for n := range waiting {
		if _, err := b.park.Park(t.Context(), &message.Message{ID: fmt.Sprint("waits-", n), RoutingKey: "k"}, message.After(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	var asked answers
	stop := asked.keepParking(t, 4, func(ctx context.Context, id string) error {
		_, err := b.park.Park(ctx, &message.Message{ID: id, RoutingKey: "k"}, message.After(1500*time.Millisecond))
		return err
	})
	asked.await(t, 100, "stored", isNil)
	all := exported(t, b.park)
	stop()
	waits := 0
	for _, one := range all {
		if strings.HasPrefix(one.ID, "waits-") {
			waits++
		}
	}
	if waits != waiting || len(all) == waiting {
		t.Errorf("exported %d, of which %d of %d", len(all), waits, waiting)
	}
	to := newBenchAt(t, topology.Config{Tiers: []time.Duration{time.Second}, Lead: time.Second}, servertest.ForTest(t))
	to.arrivals = listen(t, to.dial(t))
	to.run(t, nil)
	soon := map[string]redisbridge.Stored{}
	for name, one := range all {
		if !strings.HasPrefix(one.ID, "waits-") {
			soon[name] = one
		}
	}
	until(t, "the last is overdue", func() bool {
		for _, one := range soon {
			if time.Now().Before(one.Due) {
				return false
			}
		}
		return true
	})
	importAll(t, to.park, soon)
	for _, one := range soon {
		to.arrivals.awaitID(t, one.ID)
	}
}

// The steps of docs/recovery.md, to another prefix with other shards, while publishers go on. Each message comes,
// and once.
func TestMoveToAnotherPlace(t *testing.T) {
	t.Parallel()
	c := topology.Config{Tiers: []time.Duration{500 * time.Millisecond, time.Second}, Lead: time.Second, Shards: 2}
	from := newBench(t, c)
	c.Shards = 5
	to := newBench(t, c)
	stopBridge := from.run(t, nil)
	var before, after answers
	parkAt := func(b *bench, place string) func(context.Context, string) error {
		return func(ctx context.Context, id string) error {
			pauseShortly() // or a slow machine parks more than it can move
			ticket, err := b.park.Park(ctx, &message.Message{ID: place + id, RoutingKey: "order.unpaid"}, message.After(time.Duration(1200+rand.IntN(4000))*time.Millisecond))
			if err == nil && ticket.Parking != message.Parked {
				return fmt.Errorf("parked as %v", ticket.Parking)
			}
			return err
		}
	}
	stop := before.keepParking(t, 8, parkAt(from, "from-"))
	before.await(t, 500, "stored", isNil)
	stop()
	stop = after.keepParking(t, 8, parkAt(to, "to-"))
	stopBridge()
	for _, one := range exported(t, from.park) {
		if one.State == redisbridge.StateInLane {
			continue
		}
		if _, err := to.park.Import(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
	to.run(t, nil)
	after.await(t, 500, "stored", isNil)
	stop()
	all := map[string]error{}
	for place, told := range map[string]*answers{"from-": &before, "to-": &after} {
		for id, err := range told.all() {
			all[place+id] = err
		}
	}
	times := func(id string) int { return len(from.arrivals.of(id)) + len(to.arrivals.of(id)) }
	for id, err := range all {
		if err != nil {
			t.Errorf("%s: %v", id, err)
		}
		until(t, id+" comes", func() bool { return times(id) > 0 })
	}
	for id := range all {
		if n := times(id); n != 1 {
			t.Errorf("%s came %d times", id, n)
		}
	}
}
