package redisbridge_test

import (
	"context"
	"crypto/sha1" // by which Redis names scripts
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// longTier is the TTL of the tier in which the messages of these tests wait: long enough for a
// slow machine to search it before they are out.
const longTier = 15 * time.Second

func withLongTier() topology.Config {
	return topology.Config{Tiers: []time.Duration{500 * time.Millisecond, time.Second, longTier}, Lead: time.Second, Shards: 2}
}

// tiered is a bench whose messages go straight into a tier, without Redis.
type tiered struct {
	*bench
	*desk
	ch   *amqp.Channel
	ids  []string
	sent map[string]time.Time // before that nobody can have published it
	due  map[string]time.Time // at the latest, in its tier

	searched sync.Map // ID -> when the search that had found it was over
}

func newTiered(t *testing.T, c topology.Config) *tiered {
	t.Helper()
	b := newBenchAt(t, c, servertest.ForTest(t))
	b.run(t, nil)
	return &tiered{bench: b, desk: b.attend(t), ch: b.confirming(t), sent: map[string]time.Time{}, due: map[string]time.Time{}}
}

// put publishes as a foreign client does.
func (d *tiered) put(t *testing.T, id string, tier time.Duration) {
	t.Helper()
	d.ids = append(d.ids, id)
	d.sent[id] = time.Now().Add(tier)
	d.enter(t, d.ch, id, tier)
	d.due[id] = time.Now().Add(tier)
}

// putMany publishes n messages, every so often.
func (d *tiered) putMany(t *testing.T, n int, every time.Duration) {
	t.Helper()
	for i := range n {
		d.put(t, fmt.Sprintf("m-%03d", i), longTier)
		waitUntil(t, time.Now().Add(every))
	}
}

// move reschedules a message of which Redis knows nothing, and returns when it is due.
func (d *tiered) move(t *testing.T, id string, w message.When) time.Time {
	t.Helper()
	change, err := d.park.Reschedule(t.Context(), id, w)
	if err != nil || change.Outcome != redisbridge.Unknown {
		t.Fatalf("%s: got %+v, %v; want that it is unknown", id, change, err)
	}
	return change.Due
}

// search looks for messages, and expects to find these.
func (d *tiered) search(t *testing.T, channels topology.Channels, bounds redisbridge.SearchBounds, found []string, ids ...string) redisbridge.Search {
	t.Helper()
	s, err := d.park.SearchTiers(t.Context(), channels, ids, bounds)
	if err != nil {
		t.Errorf("search: %v", err)
	}
	for _, id := range found {
		if s.Found[id] == 0 {
			t.Errorf("%s was not found: %+v", id, s)
		}
		d.searched.Store(id, time.Now())
	}
	if len(s.Found) != len(found) {
		t.Errorf("found %v, want %v", s.Found, found)
	}
	return s
}

// all waits until each message is handled, and finds those that were moved at their new
// time, the others at their own and in order, and each once. No search is under way any
// more.
func (d *tiered) all(t *testing.T, moved map[string]time.Time) {
	t.Helper()
	began := time.Now()
	defer func() {
		if t.Failed() {
			for _, id := range d.ids {
				t.Logf("%s was due %v after the last search, at most, and came %v after that", id, d.due[id].Sub(began), d.arrived(id).Sub(d.due[id]))
			}
		}
	}()
	for _, id := range d.ids {
		until(t, id+" is handled", func() bool { return len(d.times(id)) > 0 })
	}
	waitUntil(t, d.due[d.ids[len(d.ids)-1]].Add(500*time.Millisecond)) // what should not come has come by then
	var before string
	for _, id := range d.ids {
		got := d.times(id)
		if len(got) != 1 {
			t.Errorf("%s was handled %d times: %v", id, len(got), got)
		}
		due, is := moved[id]
		if is {
			if early := due.Sub(got[0]); early > 0 {
				t.Errorf("%s was moved, and came %v early", id, early)
			}
			// Found at the last moment, after other searches, it may come as late.
			over, _ := d.searched.Load(id)
			if at, _ := over.(time.Time); at.Before(d.sent[id].Add(-time.Second)) && got[0].After(d.sent[id]) {
				t.Errorf("%s was brought forward, and came no earlier than without that, %v late", id, got[0].Sub(due))
			}
			continue
		}
		came := d.arrived(id)
		if early := d.sent[id].Sub(came); early > 0 {
			t.Errorf("%s stayed in its tier, and came %v early", id, early)
		}
		if before != "" && came.Before(d.arrived(before)) {
			t.Errorf("%s came %v before %s", id, d.arrived(before).Sub(came), before)
		}
		// A search may hold it until it is over. What waits behind one that is due later shows
		// in the order.
		out := d.due[id]
		if began.After(out) {
			out = began
		}
		if late := came.Sub(out); late > longTier/5 {
			t.Errorf("%s stayed in its tier, and came %v late", id, late)
		}
		before = id
	}
}

// The first, the last and one in the middle are brought forward. Those between them
// notice nothing.
func TestBroughtForwardOutOfATier(t *testing.T) {
	t.Parallel()
	d := newTiered(t, withLongTier())
	d.putMany(t, 30, 50*time.Millisecond)
	moved := map[string]time.Time{}
	for _, id := range []string{"m-000", "m-014", "m-029"} {
		moved[id] = d.move(t, id, message.After(1500*time.Millisecond))
	}
	s := d.search(t, d.dial(t), redisbridge.SearchBounds{}, []string{"m-000", "m-014", "m-029"}, "m-000", "m-014", "m-029")
	if s.Looked != 30 || len(s.Unfinished) > 0 {
		t.Errorf("got %+v; want that all 30 were looked at", s)
	}
	if s.Found["m-000"] != longTier {
		t.Errorf("got %v, want %v", s.Found["m-000"], longTier)
	}
	for id, due := range moved {
		e, known, err := d.park.Look(t.Context(), id)
		if err != nil || !known || e.State == redisbridge.StateMoved || !e.Due.Equal(due) {
			t.Errorf("%s: got %+v, %v, %v; want it parked until %v", id, e, known, err, due)
		}
	}
	d.all(t, moved)
}

// What a search holds goes back in front of what it has not seen, in its order, however
// much it has taken out.
func TestSearchGivesBackInOrder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bounds []int // of one search after the other
		want   []int // of those that are searched for, which the first one finds
	}{
		"all held":       {[]int{0, 0, 0}, []int{3, 20, 35}},
		"bound reached":  {[]int{12, 12, 12}, []int{3}},
		"smaller bounds": {[]int{12, 5, 1}, []int{3}},
		"larger bounds":  {[]int{5, 8, 12}, []int{3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newTiered(t, withLongTier())
			d.putMany(t, 40, 40*time.Millisecond)
			moved, ids, want := map[string]time.Time{}, []string{}, []string{}
			for _, i := range []int{3, 20, 35} {
				id := d.ids[i]
				ids = append(ids, id)
				due := d.move(t, id, message.After(1200*time.Millisecond))
				if slices.Contains(c.want, i) {
					want = append(want, id)
					moved[id] = due
				}
			}
			for _, bound := range c.bounds { // each search is a delivery of what it holds
				s := d.search(t, d.dial(t), redisbridge.SearchBounds{Messages: bound}, want, ids...)
				if bound > 0 && (len(s.Unfinished) != 1 || s.Looked > 20) {
					t.Errorf("bound %d: got %+v; want that it was reached", bound, s)
				}
				want = nil
			}
			d.all(t, moved)
		})
	}
}

// Hundreds are found in one go, and all that is acknowledged is gone from the tier.
func TestManyAreBroughtForwardAtOnce(t *testing.T) {
	t.Parallel()
	d := newTiered(t, withLongTier())
	const n = 300
	for i := range n {
		d.put(t, fmt.Sprintf("m-%03d", i), longTier)
	}
	moved, ids := map[string]time.Time{}, []string{}
	for i, id := range d.ids {
		if i%3 > 0 && time.Until(d.sent[id]) > longTier*2/3 {
			moved[id] = d.move(t, id, message.After(time.Second))
			ids = append(ids, id)
		}
	}
	d.search(t, d.dial(t), redisbridge.SearchBounds{}, ids, append([]string{"nobody"}, ids...)...)
	d.all(t, moved)
	for _, id := range ids {
		if drops := d.drops(id); drops > 0 {
			t.Errorf("%s: the tier had it still, and its consumer dropped it", id)
		}
	}
}

// Each tier that can hold a message is searched, those of the entries, too, and no other.
func TestEachTierIsSearchedThatCanHoldIt(t *testing.T) {
	t.Parallel()
	c := withEntries(withLongTier(), amqp.ExchangeDirect, amqp.ExchangeFanout)
	c.Tiers = append(c.Tiers, 2*longTier)
	b := newBenchAt(t, c, servertest.ForTest(t))
	b.run(t, nil)
	out, ch := &outlets{byID: map[string][]outcome{}}, b.confirming(t)
	out.hear(t, b, b.topology, "", amqp.ExchangeDirect, amqp.ExchangeFanout)
	want, ids := map[string]string{}, []string{}
	for _, entry := range []string{"", amqp.ExchangeDirect, amqp.ExchangeFanout} {
		for _, tier := range []time.Duration{longTier, 2 * longTier} {
			id := fmt.Sprintf("%s-%v", entry, tier)
			want[id], ids = entry, append(ids, id)
			confirmation, err := ch.PublishWithDeferredConfirm(b.topology.EntryExchangeOf(entry), entryKey, true, false, amqp.Publishing{
				MessageId: id, DeliveryMode: amqp.Persistent, Body: []byte(id), CorrelationId: "c-" + id,
				Headers: amqp.Table{message.HeaderDelay: tier.Milliseconds(), "shop": int64(7)},
			})
			if err != nil || !confirmation.Wait() {
				t.Fatalf("%s: not confirmed: %v", id, err)
			}
		}
	}
	conn := b.dial(t)
	for _, step := range []struct {
		to    time.Duration
		found int
	}{
		{time.Hour, 0},        // which no tier needs to know of
		{20 * time.Second, 3}, // only what is in the longest
		{8 * time.Second, 3},  // the rest
		{2 * time.Second, -1}, // Redis has all of them, and none is out yet
	} {
		for _, id := range ids {
			if _, err := b.park.Reschedule(t.Context(), id, message.After(step.to)); err != nil {
				t.Fatal(err)
			}
		}
		s, err := b.park.SearchTiers(t.Context(), conn, ids, redisbridge.SearchBounds{})
		if err != nil || len(s.Found) != max(0, step.found) {
			t.Errorf("moved to %v: got %+v, %v; want %d found", step.to, s, err, step.found)
		}
		if step.found <= 0 && s.Looked > 0 {
			t.Errorf("moved to %v: looked at %d messages, want none", step.to, s.Looked)
		}
	}
	out.await(t, len(want))
	out.check(t, want)
}

// A search that dies right after a message was parked leaves a copy in the tier, which
// its consumer drops.
func TestSearchDiesBetweenParkingAndAcknowledging(t *testing.T) {
	t.Parallel()
	d := newTiered(t, withLongTier())
	d.putMany(t, 5, 20*time.Millisecond)
	moved := map[string]time.Time{"m-002": d.move(t, "m-002", message.After(1500*time.Millisecond))}
	conn := d.dial(t)
	client := servertest.OpenRedis(t, d.RedisURL)
	client.AddHook(afterCarry(func() { _ = conn.Close() }))
	park, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: client, Topology: d.topology})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := park.SearchTiers(t.Context(), conn, []string{"m-002"}, redisbridge.SearchBounds{}); err == nil {
		t.Error("the search has lost its connection, and says nothing")
	}
	d.all(t, moved)
	if drops := d.drops("m-002"); drops != 1 {
		t.Errorf("dropped %d times, want once: what was in the tier", drops)
	}
}

// afterCarry is called when Redis has answered that it has parked a message of a tier,
// before the answer is read.
type afterCarry func()

func (f afterCarry) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f afterCarry) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if args := cmd.Args(); err == nil && len(args) > 1 {
			hash, _ := args[1].(string)
			if cmd.Name() == "eval" { // the server did not have it yet
				sum := sha1.Sum([]byte(hash))
				hash = hex.EncodeToString(sum[:])
			}
			if redisbridge.ScriptNames()[hash] == "carry" {
				f()
			}
		}
		return err
	}
}

func (f afterCarry) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// Messages are brought forward in the very moment in which they come out of their tier.
func TestSearchWhileTheMessageExpires(t *testing.T) {
	t.Parallel()
	d := newTiered(t, withLongTier())
	const tier = time.Second
	const n = 40
	var all sync.WaitGroup
	dues := make([]time.Time, n)
	for i := range n {
		d.put(t, fmt.Sprintf("m-%03d", i), tier)
		id, at := d.ids[i], d.sent[d.ids[i]]
		all.Go(func() {
			waitUntil(t, at.Add(time.Duration(i%20-15)*10*time.Millisecond))
			change, err := d.park.Reschedule(t.Context(), id, message.After(time.Duration(i%4)*20*time.Millisecond))
			if err != nil {
				t.Error(err)
				return
			}
			if change.Outcome != redisbridge.Unknown { // its consumer has it
				return
			}
			dues[i] = change.Due
			if _, err := d.park.SearchTiers(t.Context(), d.dial(t), []string{id}, redisbridge.SearchBounds{}); err != nil {
				t.Error(err)
			}
		})
		waitUntil(t, time.Now().Add(30*time.Millisecond))
	}
	all.Wait()
	for _, id := range d.ids {
		until(t, id+" is handled", func() bool { return len(d.times(id)) > 0 })
	}
	d.parkOne(t, "last", message.After(3*time.Second)) // what should not come has come by then
	until(t, "last", func() bool { return len(d.times("last")) == 1 })
	for i, id := range d.ids {
		got := d.times(id)
		if len(got) != 1 {
			t.Errorf("%s was handled %d times", id, len(got))
			continue
		}
		earliest := d.sent[id]
		if !dues[i].IsZero() {
			earliest = dues[i]
		}
		if early := earliest.Sub(got[0]); early > 0 {
			t.Errorf("%s came %v early", id, early)
		}
	}
}

// Searches wait for each other, over one connection and over several, so that each sees
// all that there is and gives it back in order.
func TestSearchesAtOnce(t *testing.T) {
	t.Parallel()
	d := newTiered(t, withLongTier())
	d.putMany(t, 40, 20*time.Millisecond)
	moved := map[string]time.Time{}
	var all sync.WaitGroup
	conn := d.dial(t)
	for i := range 6 {
		id := d.ids[5+6*i]
		moved[id] = d.move(t, id, message.After(2*time.Second))
		on := conn
		if i%2 == 0 {
			on = d.dial(t)
		}
		all.Go(func() { d.search(t, on, redisbridge.SearchBounds{}, []string{id}, id) })
	}
	all.Wait()
	d.all(t, moved)
}

// A tier that somebody consumes from is left alone: what two hold goes back in any order.
func TestSearchLeavesATierWithAConsumerAlone(t *testing.T) {
	t.Parallel()
	d := newTiered(t, withLongTier())
	d.putMany(t, 2, 0)
	tier, _ := d.topology.Tier(longTier)
	conn := d.dial(t)
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.Qos(1, 0, false); err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.Consume(tier.Name, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	<-deliveries
	moved := map[string]time.Time{"m-001": d.move(t, "m-001", message.After(time.Second))}
	s, err := d.park.SearchTiers(t.Context(), d.dial(t), []string{"m-001"}, redisbridge.SearchBounds{})
	if err == nil || s.Looked > 0 {
		t.Errorf("got %+v, %v; want an error, and nothing looked at", s, err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "the consumer is gone, and the message is found", func() bool {
		s, err := d.park.SearchTiers(t.Context(), d.dial(t), []string{"m-001"}, redisbridge.SearchBounds{})
		return err == nil && len(s.Found) == 1
	})
	d.all(t, moved)
}

// A search ends with its time, or with its context, and then has lost nothing.
func TestSearchIsCutOff(t *testing.T) {
	t.Parallel()
	d := newTiered(t, withLongTier())
	d.putMany(t, 200, 0)
	d.move(t, "m-199", message.After(longTier/2))
	conn := d.dial(t)
	s := d.search(t, conn, redisbridge.SearchBounds{Time: time.Nanosecond}, nil, "m-199")
	if len(s.Unfinished) != 1 || s.Looked == 200 {
		t.Errorf("got %+v; want that its time was over", s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := d.park.SearchTiers(ctx, conn, []string{"m-199"}, redisbridge.SearchBounds{}); !errors.Is(err, context.Canceled) || len(s.Found) > 0 {
		t.Errorf("got %+v, %v; want that it was cancelled", s, err)
	}
	moved := map[string]time.Time{"m-199": d.move(t, "m-199", message.After(time.Second))}
	d.search(t, conn, redisbridge.SearchBounds{}, []string{"m-199"}, "m-199")
	d.all(t, moved)
}

// What was published long after the change is another message with the same ID.
func TestSearchLeavesAnotherMessageWithTheIDAlone(t *testing.T) {
	t.Parallel()
	d := newTiered(t, withLongTier())
	tier, _ := d.topology.Tier(longTier)
	due := d.move(t, "m", message.After(time.Second))
	d.ids, d.sent["m"] = []string{"m"}, time.Now().Add(longTier)
	confirmation, err := d.ch.PublishWithDeferredConfirm(tier.Name, "order.unpaid", true, false, amqp.Publishing{
		MessageId: "m", DeliveryMode: amqp.Persistent,
		Headers: amqp.Table{message.HeaderPublished: due.Add(10 * time.Second).UTC().Format("2006-01-02T15:04:05.000Z07:00")},
	})
	if err != nil || !confirmation.Wait() {
		t.Fatalf("not confirmed: %v", err)
	}
	d.due["m"] = time.Now().Add(longTier)
	if s := d.search(t, d.dial(t), redisbridge.SearchBounds{}, nil, "m"); s.Looked != 1 {
		t.Errorf("got %+v; want that one was looked at", s)
	}
	d.all(t, nil)
}

func TestSearchBounds(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, short(), servertest.ForTest(t))
	for _, bounds := range []redisbridge.SearchBounds{{Messages: -1}, {Messages: redisbridge.MaxSearchMessages + 1}, {Time: -1}} {
		if _, err := b.park.SearchTiers(t.Context(), b.dial(t), []string{"m"}, bounds); err == nil {
			t.Errorf("%+v is accepted", bounds)
		}
	}
}

// However often a tier is searched, what lies there does not come nearer to the delivery
// limit of the queue in which it ends, to which RabbitMQ 4.3 hands the count over.
func TestSearchingIsNoDelivery(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, withLongTier(), servertest.ForTest(t))
	deliveries, conn := b.deliveries(t), b.dial(t)
	b.enter(t, b.confirming(t), "m", longTier)
	if change, err := b.park.Reschedule(t.Context(), "x", message.After(time.Second)); err != nil || change.Outcome != redisbridge.Unknown {
		t.Fatalf("got %+v, %v; want that it is unknown", change, err)
	}
	looked := 0
	for range 6 {
		s, err := b.park.SearchTiers(t.Context(), conn, []string{"x"}, redisbridge.SearchBounds{})
		if err != nil {
			t.Fatal(err)
		}
		looked += s.Looked
	}
	if looked < 4 {
		t.Fatalf("m was seen %d times, so this tests nothing", looked)
	}
	select {
	case d := <-deliveries:
		// Where it does not count what is taken as well, the broker looks at a count of its own.
		_, looks := d.Headers["x-acquired-count"]
		if count, _ := d.Headers["x-delivery-count"].(int64); d.MessageId != "m" || looks && count > 1 {
			t.Errorf("%s comes as delivered %d times, want at most once", d.MessageId, count)
		}
	case <-time.After(patience):
		t.Fatal("m does not come")
	}
}
