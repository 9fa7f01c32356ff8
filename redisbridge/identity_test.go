package redisbridge_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/servers/redisserver"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// What message.Arrival.Because says of a message that has come.
const (
	isWanted      = ""
	isCancelled   = "cancelled"
	isRescheduled = "rescheduled"
)

// parkedFrom waits until the intake has parked so many messages.
func (b *bench) parkedFrom(t *testing.T, n int) {
	t.Helper()
	until(t, "the messages are parked", func() bool { return len(b.list(t, redisbridge.Filter{})) >= n })
}

func (b *bench) changed(t *testing.T, want redisbridge.Outcome, messages int) func(redisbridge.Change, error) redisbridge.Change {
	t.Helper()
	return func(c redisbridge.Change, err error) redisbridge.Change {
		t.Helper()
		if err != nil || c.Outcome != want || c.Messages != messages {
			t.Errorf("got %+v, %v; want %d messages %s", c, err, messages, want)
		}
		return c
	}
}

// A publisher that has lost its confirm sends the same message again. It is one message,
// whatever is done to it.
func TestRepetitionIsTheFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	b.run(t, nil)
	publish := func(id, trace string) {
		b.publishEntry(t, amqp.Publishing{
			MessageId: id, ContentType: "text/plain", Body: []byte("close"),
			Headers: amqp.Table{"x-delay": int64(6100), "customer": int32(7), "traceparent": trace},
		})
	}
	for _, id := range []string{"cancelled", "moved", "left alone"} {
		publish(id, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")
		publish(id, "00-0af7651916cd43dd8448eb211c80319d-b7ad6b7169203332-00")
	}
	b.parkedFrom(t, 3)
	if all := b.list(t, redisbridge.Filter{}); len(all) != 3 {
		t.Errorf("%d messages wait, want 3: %+v", len(all), all)
	}
	b.changed(t, redisbridge.OutcomeDone, 1)(b.park.Cancel(t.Context(), "cancelled"))
	moved := b.changed(t, redisbridge.OutcomeDone, 1)(b.park.Reschedule(t.Context(), "moved", message.After(8*time.Second)))
	publish("cancelled", "") // and again, which is too late now
	got := b.arrivals.awaitID(t, "moved")
	if early := moved.Due.Sub(got.at); early > 0 {
		t.Errorf("came %v before its new due time", early)
	}
	all := b.arrivals.await(t, 2, patience)
	if len(all["left alone"]) != 1 || len(all["moved"]) != 1 || len(all["cancelled"]) != 0 {
		t.Errorf("arrived: %d left alone, %d moved, %d cancelled; want 1, 1, 0", len(all["left alone"]), len(all["moved"]), len(all["cancelled"]))
	}
}

// Messages with one ID and different contents are different messages, and what is asked of
// the ID is done to each.
func TestOneIDReachesAllItsMessages(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, short(), servertest.ForTest(t))
	desk := b.attend(t)
	stop := b.run(t, nil)
	contents := []amqp.Publishing{
		{Body: []byte("one"), Headers: amqp.Table{"x-delay": int64(3_600_100)}},
		{Body: []byte("two"), Headers: amqp.Table{"x-delay": int64(3_600_100)}},
		{Body: []byte("one"), Headers: amqp.Table{"x-delay": int64(3_600_200)}},
		{Body: []byte("one"), Headers: amqp.Table{"x-delay": int64(3_600_100), "customer": "7"}},
	}
	ids := []string{"all", "cancelled", "moved"}
	for range 2 { // each is repeated
		for _, p := range contents {
			for _, id := range ids {
				p.MessageId = id
				b.publishEntry(t, p)
			}
		}
	}
	n := len(contents)
	b.parkedFrom(t, n*len(ids))
	if all := b.list(t, redisbridge.Filter{IDPrefix: "moved"}); len(all) != n || all[0].ID != "moved" || all[0].Message.ID != "moved" {
		t.Errorf("listed: %+v; want %d messages", all, n)
	}
	all, err := b.park.GetAll(t.Context(), "moved")
	if err != nil || len(all) != n || all[0].Messages != n {
		t.Errorf("looked up: %+v, %v; want %d messages", all, err, n)
	}
	b.changed(t, redisbridge.OutcomeDone, n)(b.park.Cancel(t.Context(), "cancelled"))
	b.changed(t, redisbridge.OutcomeCancelledBefore, n)(b.park.Cancel(t.Context(), "cancelled"))
	due := b.changed(t, redisbridge.OutcomeDone, n)(b.park.Reschedule(t.Context(), "moved", message.After(2*time.Second))).Due
	b.changed(t, redisbridge.OutcomeDone, n)(b.park.Reschedule(t.Context(), "all", message.After(0)))
	until(t, "all have come", func() bool { return len(desk.times("all")) == n && len(desk.times("moved")) == n })
	for _, at := range desk.times("moved") {
		if at.Before(due) {
			t.Errorf("handled %v before the new due time", due.Sub(at))
		}
	}
	// Of one that comes when its record is forgotten, as it was due, nothing is noted down.
	if c, err := b.park.Cancel(t.Context(), "all"); err != nil || c.Outcome != redisbridge.OutcomeDelivered {
		t.Errorf("got %+v, %v; want them delivered", c, err)
	}
	if got := desk.times("cancelled"); len(got) > 0 {
		t.Errorf("cancelled, and handled %d times", len(got))
	}
	stop()
}

// What the broker has of such messages when they are changed is dropped.
func TestOneIDReachesItsMessagesInTheBroker(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, inLaneForLong(), servertest.ForTest(t))
	desk := b.attend(t)
	b.run(t, nil)
	for _, body := range []string{"one", "two"} {
		for _, id := range []string{"cancelled", "moved"} {
			b.publishEntry(t, amqp.Publishing{MessageId: id, Body: []byte(body), Headers: amqp.Table{"x-delay": int64(30_000)}})
		}
	}
	until(t, "all are in their lane", func() bool { return len(b.list(t, redisbridge.Filter{State: redisbridge.StateInLane})) == 4 })
	b.changed(t, redisbridge.OutcomeDone, 2)(b.park.Cancel(t.Context(), "cancelled"))
	due := b.changed(t, redisbridge.OutcomeDone, 2)(b.park.Reschedule(t.Context(), "moved", message.After(8*time.Second))).Due
	until(t, "what is cancelled has come, and what is moved twice", func() bool {
		return desk.drops("cancelled") == 2 && desk.drops("moved") == 2 && len(desk.times("moved")) == 2
	})
	for _, at := range desk.times("moved") {
		if at.Before(due) {
			t.Errorf("handled %v before the new due time", due.Sub(at))
		}
	}
	if got := desk.times("cancelled"); len(got) > 0 {
		t.Errorf("cancelled, and handled %d times", len(got))
	}
}

// A Go publisher that uses an ID twice is told so.
func TestParkRefusesOtherContent(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	m := message.Message{ID: "m", RoutingKey: "order.unpaid", Body: []byte("one"), Headers: amqp.Table{"a": int64(1), "b": "2", "c": true}}
	due := b.parkThis(t, &m, message.After(time.Hour))
	park := func(m message.Message, w message.When) message.Ticket {
		t.Helper()
		ticket, err := b.park.Park(t.Context(), &m, w)
		if err != nil {
			t.Fatal(err)
		}
		return ticket
	}
	for range 8 { // in which order a table is written is left to chance
		if got, want := park(m, message.After(time.Hour)), (message.Ticket{Parking: message.ParkedBefore, Due: due}); got != want {
			t.Fatalf("the same again: got %+v, want %+v", got, want)
		}
	}
	other := m
	other.Body = []byte("two")
	for name, got := range map[string]message.Ticket{
		"another body": park(other, message.After(time.Hour)), "another delay": park(m, message.After(2*time.Hour)),
	} {
		if want := (message.Ticket{Parking: message.Conflict, Due: due}); got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	b.changed(t, redisbridge.OutcomeDone, 1)(b.park.Cancel(t.Context(), "m"))
	if got := park(other, message.After(time.Hour)); got.Parking != message.CancelledBefore {
		t.Errorf("after it was cancelled: got %+v", got)
	}
}

// An ID belongs to its entry.
func TestIDBelongsToItsEntry(t *testing.T) {
	t.Parallel()
	c := short()
	c.Entries = []topology.Entry{{Name: "orders", Kind: "topic"}}
	b := newBenchAt(t, c, servertest.ForTest(t))
	orders := b.park.OfEntry("orders")
	for _, id := range []string{"m", "\x01m", "\x02m"} {
		b.parkThis(t, &message.Message{ID: id, RoutingKey: "k"}, message.After(time.Hour))
		b.parkThis(t, &message.Message{ID: id, RoutingKey: "k", Entry: "orders", Body: []byte("another")}, message.After(time.Hour))
		b.changed(t, redisbridge.OutcomeDone, 1)(orders.Cancel(t.Context(), id))
		e, known, err := lookUp(b.park.Get(t.Context(), id))
		if err != nil || !known || e.State != redisbridge.StateParked || e.ID != id {
			t.Errorf("%q of the default entry: got %+v, %v, %v; want it parked", id, e, known, err)
		}
		e, known, err = lookUp(orders.Get(t.Context(), id))
		if err != nil || !known || e.State != redisbridge.StateCancelled || e.ID != id {
			t.Errorf("%q of the other entry: got %+v, %v, %v; want it cancelled", id, e, known, err)
		}
	}
}

// A consumer that asks drops whatever was published before the ID was cancelled: also a copy
// that went into a tier, of which Redis has no record.
func TestCopyFromElsewhereIsDropped(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	b.parkOne(t, "m", message.After(time.Hour))
	published := time.Now().Add(-time.Second)
	change := b.changed(t, redisbridge.OutcomeDone, 1)(b.park.Cancel(t.Context(), "m"))
	if kept := change.Until.Sub(change.Due); kept < 24*time.Hour {
		t.Errorf("the tombstone goes %v after the message would have been due", kept)
	}
	for name, journey := range map[string]message.Journey{"of a tier": {Published: published}, "of a foreign client": {}} {
		arrival, err := b.park.Arrive(t.Context(), &message.Message{ID: "m", Journey: journey})
		if err != nil || arrival.Because() != isCancelled {
			t.Errorf("a copy %s: got %+v, %v; want it dropped", name, arrival, err)
		}
	}
	later := message.Journey{Published: time.Now().Add(time.Minute)}
	if arrival, err := b.park.Arrive(t.Context(), &message.Message{ID: "m", Journey: later}); err != nil || arrival.Because() != isWanted {
		t.Errorf("a message that was published after the cancellation: got %+v, %v", arrival, err)
	}
	waitUntil(t, published.Add(3*time.Second))
	again := b.changed(t, redisbridge.OutcomeCancelledBefore, 1)(b.park.Cancel(t.Context(), "m"))
	if again.Until.Before(change.Until) {
		t.Errorf("the tombstone goes at %v, and at %v after another cancellation", change.Until, again.Until)
	}
	between := message.Journey{Published: published.Add(7 * time.Second)} // by a clock that is ahead by as much as it may
	if arrival, err := b.park.Arrive(t.Context(), &message.Message{ID: "m", Journey: between}); err != nil || arrival.Because() != isCancelled {
		t.Errorf("a message that was published before the second cancellation: got %+v, %v", arrival, err)
	}
	recorded := b.changed(t, redisbridge.OutcomeRecorded, 1)(b.park.Cancel(t.Context(), "never seen"))
	if recorded.Until.Sub(recorded.At) < 24*time.Hour {
		t.Errorf("recorded until %v", recorded.Until)
	}
}

// A bridge may say twice that the broker has a message: its answer was lost, or the shard has
// changed hands. A message with the same ID that is parked after that is another one.
func TestSettledTwiceLosesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, topology.Config{Tiers: []time.Duration{time.Second, 2 * time.Second}, Lead: time.Second, Shards: 1})
	first, err := redisbridge.New(redisbridge.Config{AMQPURL: b.AMQPURL, Topology: b.topology, Client: b.client})
	if err != nil {
		t.Fatal(err)
	}
	due := b.parkOne(t, "again", message.After(1300*time.Millisecond))
	waitUntil(t, due.Add(-900*time.Millisecond))
	n, settle, err := redisbridge.Claim(t.Context(), first, 0)
	if err != nil || n != 1 {
		t.Fatalf("claimed %d messages, %v; want 1", n, err)
	}
	for range 2 {
		if err := settle(); err != nil {
			t.Fatal(err)
		}
		waitUntil(t, due.Add(100*time.Millisecond))
	}
	b.parkThis(t, &message.Message{ID: "again", RoutingKey: "order.unpaid", Body: []byte("two")}, message.After(3*time.Second))
	if _, _, err := redisbridge.Claim(t.Context(), first, 0); err != nil { // which forgets what is over
		t.Fatal(err)
	}
	if _, known, err := lookUp(b.park.Get(t.Context(), "again")); err != nil || !known {
		t.Fatalf("known: %v, %v; the message is lost", known, err)
	}
	b.run(t, nil)
	if got := b.arrivals.awaitID(t, "again"); string(got.Body) != "two" {
		t.Errorf("got %q", got.Body)
	}
}

// A message that is due may have been delivered before its bridge settles it. What is published
// with its ID from then on is a new message.
func TestRepetitionOfWhatIsDueIsAnother(t *testing.T) {
	t.Parallel()
	b := newBench(t, topology.Config{Tiers: []time.Duration{time.Second}, Lead: time.Second, Shards: 1})
	slow, err := redisbridge.New(redisbridge.Config{AMQPURL: b.AMQPURL, Topology: b.topology, Client: b.client})
	if err != nil {
		t.Fatal(err)
	}
	var settle []func() error
	for i := range 3 {
		due := b.parkOne(t, "again", message.After(700*time.Millisecond))
		until(t, "it is claimed", func() bool {
			n, done, err := redisbridge.Claim(t.Context(), slow, 0)
			if err != nil || n > 1 {
				t.Fatalf("claimed %d messages, %v; want 1, the %dth", n, err, i)
			}
			settle = append(settle, done)
			return n == 1
		})
		waitUntil(t, due.Add(2*time.Millisecond))
	}
	b.parkOne(t, "again", message.After(2*time.Second))
	for _, done := range settle {
		if err := done(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(b.list(t, redisbridge.Filter{})); n != 1 {
		t.Errorf("%d messages wait, want the last one", n)
	}
	b.run(t, nil)
	b.arrivals.awaitID(t, "again")
}

// A bridge has claimed the message, and may have published it, though it was not to be promoted
// yet by the tiers of who reschedules it: while tiers are changed, processes differ in them.
func TestRescheduleOfWhatAnotherConfigurationClaimed(t *testing.T) {
	t.Parallel()
	c := topology.Config{Tiers: []time.Duration{time.Hour}, Lead: time.Hour, Shards: 1}
	b := newBench(t, c)
	bridge, err := redisbridge.New(redisbridge.Config{AMQPURL: b.AMQPURL, Topology: b.topology, Client: b.client})
	if err != nil {
		t.Fatal(err)
	}
	b.parkOne(t, "m", message.After(time.Hour))
	if n, _, err := redisbridge.Claim(t.Context(), bridge, 0); err != nil || n != 1 {
		t.Fatalf("claimed %d messages, %v; want 1", n, err)
	}
	c.Prefix, c.Tiers, c.Lead = b.topology.Prefix(), []time.Duration{time.Minute}, time.Minute
	changed, err := topology.New(c)
	if err != nil {
		t.Fatal(err)
	}
	park, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: b.client, Topology: changed})
	if err != nil {
		t.Fatal(err)
	}
	b.changed(t, redisbridge.OutcomeDone, 1)(park.Reschedule(t.Context(), "m", message.After(2*time.Hour)))
	if e, known, err := lookUp(b.park.Get(t.Context(), "m")); err != nil || !known || e.Version != 1 {
		t.Errorf("got %+v, %v; want another version, so that the copy with the old time is dropped", e, err)
	}
}

// A rescheduled message has been delivered to a consumer that does not ask Redis. A later message
// with the same ID and content is a new message, and is delivered too.
func TestRescheduledIDIsUsedAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, inLaneForLong())
	b.run(t, nil)
	ids := []string{"rescheduled", "rescheduled twice"}
	for _, id := range ids {
		b.publishEntry(t, usedAgain(id))
	}
	until(t, "they are in a lane", func() bool { return len(b.list(t, redisbridge.Filter{State: redisbridge.StateInLane})) == 2 })
	for _, id := range ids {
		b.changed(t, redisbridge.OutcomeDone, 1)(b.park.Reschedule(t.Context(), id, message.After(0)))
		until(t, "it is delivered at its new due time, and settled", func() bool {
			held, err := b.held(t, id)
			return err == nil && !held && len(b.arrivals.of(id)) == 1
		})
	}
	b.changed(t, redisbridge.OutcomeRecorded, 1)(b.park.Reschedule(t.Context(), ids[1], message.After(time.Second)))
	for _, id := range ids {
		b.publishEntry(t, usedAgain(id))
	}
	for _, id := range ids {
		until(t, "the old copy and the new message are delivered", func() bool { return len(b.arrivals.of(id)) == 3 })
	}
}

// The same where Redis has not seen the first message, which was in a tier. What comes out of
// the tier after it was delivered, and was published after that, is no copy of it.
func TestRescheduledIDIsUsedAgainInATier(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, placed(), servertest.ForTest(t))
	b.run(t, nil)
	desk := b.attend(t)
	inTier := amqp.Publishing{MessageId: "m", Body: []byte("close"), Headers: amqp.Table{"x-delay": int64(6000)}}
	b.publishEntry(t, inTier)
	b.changed(t, redisbridge.OutcomeRecorded, 1)(b.park.Reschedule(t.Context(), "m", message.After(6100*time.Millisecond)))
	until(t, "it is delivered at its new due time", func() bool { return len(desk.times("m")) == 1 })
	b.publishEntry(t, inTier)
	until(t, "the new message is delivered", func() bool { return len(desk.times("m")) == 2 })
}

// What a consumer has parked again, as it was rescheduled when Redis did not have it, is known
// by its content like any other message.
func TestParkedAgainIsKnownByItsContent(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, short(), servertest.ForTest(t))
	published := time.Now().Add(-time.Second)
	for name, inTier := range map[string]message.Message{
		"a foreign client's": {Headers: amqp.Table{"x-delay": int64(1000)}},
		"a Go producer's":    {Journey: message.Journey{Published: published, Due: published.Add(time.Second), Path: message.Path("tier 1s")}},
	} {
		m := message.Message{ID: name, RoutingKey: "order.unpaid", Body: []byte("one"), Headers: inTier.Headers}
		due := b.changed(t, redisbridge.OutcomeRecorded, 1)(b.park.Reschedule(t.Context(), name, message.After(time.Hour))).Due
		inTier.ID, inTier.RoutingKey, inTier.Body = m.ID, m.RoutingKey, m.Body
		if arrival, err := b.park.Arrive(t.Context(), &inTier); err != nil || arrival.Because() != isRescheduled {
			t.Fatalf("%s: before its new due time: %+v, %v", name, arrival, err)
		}
		park := func(body string, want message.Parking) {
			t.Helper()
			m.Body = []byte(body)
			if got, err := b.park.Park(t.Context(), &m, message.After(time.Second)); err != nil || got != (message.Ticket{Parking: want, Due: due}) {
				t.Errorf("%s: parked %q: got %+v, %v; want %v at %v", name, body, got, err, want, due)
			}
		}
		park("one", message.ParkedBefore)
		park("two", message.Conflict)
	}
}

// So is what a consumer has got out of a tier, as long as its ID is remembered.
func TestDeliveredOutOfATierIsKnownByItsContent(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, short(), servertest.ForTest(t))
	park, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: b.client, Topology: b.topology, Window: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	published := time.Now().Add(-time.Second)
	m := message.Message{ID: "m", RoutingKey: "order.unpaid", Body: []byte("one")}
	inTier := m
	inTier.Journey = message.Journey{Published: published, Due: published.Add(time.Second), Path: message.Path("tier 1s")}
	if arrival, err := park.Arrive(t.Context(), &inTier); err != nil || arrival.Because() != isWanted {
		t.Fatalf("got %+v, %v", arrival, err)
	}
	for body, want := range map[string]message.Parking{"one": message.ParkedBefore, "two": message.Conflict} {
		m.Body = []byte(body)
		if got, err := park.Park(t.Context(), &m, message.After(time.Second)); err != nil || got.Parking != want {
			t.Errorf("parked %q: got %+v, %v; want %v", body, got, err, want)
		}
	}
}

// A message that has been delivered is over, though its publisher's clock is ahead: without a
// window, the next one with its ID and content is another message.
func TestDeliveredFromAClockThatIsAhead(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, short(), servertest.ForTest(t))
	m := message.Message{ID: "m", RoutingKey: "order.unpaid"}
	came := m
	came.Journey = message.Journey{Published: time.Now().Add(10 * time.Minute), Due: time.Now().Add(10 * time.Minute), Path: message.PathDirect}
	if arrival, err := b.park.Arrive(t.Context(), &came); err != nil || arrival.Because() != isWanted {
		t.Fatalf("got %+v, %v", arrival, err)
	}
	if got, err := b.park.Park(t.Context(), &m, message.After(time.Hour)); err != nil || got.Parking != message.Parked {
		t.Errorf("got %+v, %v; want it parked", got, err)
	}
}

// So it is though the clock of Redis was ahead.
func TestDeliveredByAClockThatIsSetBack(t *testing.T) {
	t.Parallel()
	start := func(c servers.Config) (*redisserver.Node, *redisbridge.Park) {
		r, err := servers.StartRedis(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := r.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		})
		client, err := redisbridge.NewClient(r.URL())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		top, err := topology.New(short())
		if err != nil {
			t.Fatal(err)
		}
		park, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: client, Topology: top})
		if err != nil {
			t.Fatal(err)
		}
		return r, park
	}
	primary, before := start(servers.Config{Choice: servers.Packages, RedisAhead: time.Minute})
	replica, after := start(servers.Config{Choice: servers.Packages})
	m := message.Message{ID: "m", RoutingKey: "order.unpaid"}
	came := m
	came.Journey = message.Journey{Published: time.Now().Add(time.Minute), Due: time.Now().Add(time.Minute), Path: message.PathDirect}
	if arrival, err := before.Arrive(t.Context(), &came); err != nil || arrival.Because() != isWanted {
		t.Fatalf("got %+v, %v", arrival, err)
	}
	if err := errors.Join(replica.Replicate(t.Context(), primary), primary.FailOver(t.Context())); err != nil {
		t.Fatal(err)
	}
	if got, err := after.Park(t.Context(), &m, message.After(time.Hour)); err != nil || got.Parking != message.Parked {
		t.Errorf("got %+v, %v; want it parked", got, err)
	}
}

// Of two messages with one ID that went straight into tiers, neither is taken for an old copy of
// the other: the one that was rescheduled is known by its content.
func TestAnotherMessageInATierIsNoOldCopy(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, short(), servertest.ForTest(t))
	inTier := func(body string, version int) *message.Message {
		return &message.Message{
			ID: "m", RoutingKey: "order.unpaid", Body: []byte(body),
			Headers: amqp.Table{"x-delay": time.Hour.Milliseconds()}, Journey: message.Journey{Version: version},
		}
	}
	ofProducer := func() *message.Message { // a Go producer's
		m, published := inTier("three", 0), time.Now().Add(-time.Second)
		m.Headers, m.Journey = nil, message.Journey{Published: published, Due: published.Add(time.Hour), Path: message.Path("tier 1h")}
		return m
	}
	arrives := func(m *message.Message, want string) {
		t.Helper()
		if arrival, err := b.park.Arrive(t.Context(), m); err != nil || arrival.Because() != want {
			t.Errorf("%s of version %d: got %+v, %v; want %q", m.Body, m.Journey.Version, arrival, err, want)
		}
	}
	b.changed(t, redisbridge.OutcomeRecorded, 1)(b.park.Reschedule(t.Context(), "m", message.After(time.Hour)))
	arrives(inTier("one", 0), isRescheduled)
	entry, _, err := lookUp(b.park.Get(t.Context(), "m"))
	if err != nil || entry.Version == 0 {
		t.Fatalf("got %+v, %v; want another version", entry, err)
	}
	arrives(inTier("two", 0), isWanted)
	arrives(ofProducer(), isWanted)
	arrives(inTier("one", entry.Version), isWanted)
	arrives(inTier("two", 0), isWanted)
	arrives(ofProducer(), isWanted)
	arrives(inTier("one", 0), isRescheduled)
}

// Nor are those that Go producers published at the same millisecond.
func TestAnotherMessageOfTheMillisecondIsNoOldCopy(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, short(), servertest.ForTest(t))
	published := time.Now().Add(-time.Second)
	arrives := func(body string, want string) {
		t.Helper()
		m := message.Message{ID: "m", RoutingKey: "order.unpaid", Body: []byte(body), Journey: message.Journey{
			Published: published, Due: published.Add(time.Second), Path: message.Path("tier 1s"),
		}}
		if arrival, err := b.park.Arrive(t.Context(), &m); err != nil || arrival.Because() != want {
			t.Errorf("%s: got %+v, %v; want %q", body, arrival, err, want)
		}
	}
	b.changed(t, redisbridge.OutcomeRecorded, 1)(b.park.Reschedule(t.Context(), "m", message.After(time.Hour)))
	arrives("one", isRescheduled)
	arrives("two", isWanted)
	arrives("one", isRescheduled)
}

// Nor is one that Redis has never had taken for the one that waits there, though the clocks of
// its publisher and of Redis showed the same millisecond.
func TestMessageOfTheMillisecondIsNotTheParkedOne(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, short(), servertest.ForTest(t))
	for _, path := range []message.Path{message.PathDirect, "tier 1s", "parked, then retry", "replayed"} {
		for _, what := range []string{"waits", "rescheduled"} {
			id := fmt.Sprint(path, ", ", what)
			b.parkOne(t, id, message.After(time.Hour))
			if what == "rescheduled" {
				b.changed(t, redisbridge.OutcomeDone, 1)(b.park.Reschedule(t.Context(), id, message.After(2*time.Hour)))
			}
			before, _, err := lookUp(b.park.Get(t.Context(), id))
			if err != nil {
				t.Fatal(err)
			}
			came := message.Message{ID: id, RoutingKey: "order.unpaid", Body: []byte("another"), Journey: message.Journey{
				Published: before.Published, Due: before.Published, Path: path,
			}}
			if arrival, err := b.park.Arrive(t.Context(), &came); err != nil || arrival.Because() != isWanted {
				t.Errorf("%s: got %+v, %v; want it delivered", id, arrival, err)
			}
			after, _, err := lookUp(b.park.Get(t.Context(), id))
			if err != nil || after.State != before.State || !after.Due.Equal(before.Due) {
				t.Errorf("%s: the parked one is %s, due at %v, %v; want it %s, due at %v", id, after.State, after.Due, err, before.State, before.Due)
			}
		}
	}
}

// An old copy of a rescheduled message that was in quarantine, and is replayed, is an old copy still.
func TestReplayedOldCopyIsTold(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, inLaneForLong(), servertest.ForTest(t))
	b.run(t, nil)
	due := time.Now().Add(30 * time.Second)
	b.parkOne(t, "m", message.At(due))
	until(t, "it is in a lane", func() bool { return len(b.list(t, redisbridge.Filter{State: redisbridge.StateInLane})) == 1 })
	b.changed(t, redisbridge.OutcomeDone, 1)(b.park.Reschedule(t.Context(), "m", message.After(time.Hour)))
	parked, _, err := lookUp(b.park.Get(t.Context(), "m"))
	if err != nil || parked.Version == 0 {
		t.Fatalf("got %+v, %v; want another version", parked, err)
	}
	for _, path := range []message.Path{"replayed", "parked, then retry"} {
		old := message.Message{ID: "m", RoutingKey: "order.unpaid", Body: []byte("m"), Journey: message.Journey{
			Published: parked.Published, Due: due, Path: path,
		}}
		if arrival, err := b.park.Arrive(t.Context(), &old); err != nil || arrival.Because() != isRescheduled {
			t.Errorf("%s: got %+v, %v; want it dropped", path, arrival, err)
		}
	}
}

// A copy whose delay is longer than the time since the message was delivered was published
// before that, whenever it comes: it is an old one.
func TestOldCopyOfATierIsTold(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, short(), servertest.ForTest(t))
	for _, c := range []struct {
		published string // in the past
		delay     time.Duration
		want      string
	}{
		{"an hour ago", time.Hour, isRescheduled},
		{"just now", 0, isWanted},
	} {
		arrives := func(version int, want string) {
			t.Helper()
			m := message.Message{ID: c.published, RoutingKey: "order.unpaid", Headers: amqp.Table{"x-delay": c.delay.Milliseconds()}, Journey: message.Journey{Version: version}}
			if arrival, err := b.park.Arrive(t.Context(), &m); err != nil || arrival.Because() != want {
				t.Errorf("published %s, version %d: got %+v, %v; want %q", c.published, version, arrival, err, want)
			}
		}
		b.changed(t, redisbridge.OutcomeRecorded, 1)(b.park.Reschedule(t.Context(), c.published, message.After(time.Hour)))
		arrives(0, isRescheduled) // before its new due time
		entry, _, err := lookUp(b.park.Get(t.Context(), c.published))
		if err != nil || entry.Version == 0 {
			t.Fatalf("got %+v, %v; want another version", entry, err)
		}
		arrives(entry.Version, isWanted) // the message itself
		arrives(0, c.want)
		arrives(entry.Version+1, isWanted) // Redis must have lost that
	}
}

func usedAgain(id string) amqp.Publishing {
	return amqp.Publishing{MessageId: id, Body: []byte("close"), Headers: amqp.Table{"x-delay": int64(30_000)}}
}

// inLaneForLong has what is published with a delay of 30 s in a lane, for so long that a slow
// machine sees it there. It has ten seconds to take it in: what it parks with less than a lane's
// TTL left waits in Redis until it is due.
func inLaneForLong() topology.Config {
	return topology.Config{Tiers: []time.Duration{20 * time.Second}, Lead: 20 * time.Second, Shards: 1}
}
