package redisbridge_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/internal/health"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// The tests of this file take the steps of docs/recovery.md.

const drilled = 30 // messages

// parkDrilled parks messages that are due within some seconds of each other, and cancels one that no lane has. It
// returns when they are due. Those that a drill is to take somewhere are due in an hour, so that no slow machine
// promotes them before: see bringForward.
func (b *bench) parkDrilled(t *testing.T, name string, after time.Duration) map[string]time.Time {
	t.Helper()
	due := map[string]time.Time{}
	for i := range drilled {
		id := fmt.Sprint(name, "-", i)
		due[id] = b.parkOne(t, id, message.After(after+time.Duration(i)*50*time.Millisecond))
	}
	b.parkOne(t, name+"-cancelled", message.After(after+15*time.Second))
	b.changed(t, redisbridge.OutcomeDone, 1)(b.park.Cancel(t.Context(), name+"-cancelled"))
	return due
}

// bringForward wants what was parked in an hour to be there with its due time, and has it come soon. What was cancelled
// still is.
func (b *bench) bringForward(t *testing.T, name string, due map[string]time.Time) {
	t.Helper()
	for i := range drilled {
		id := fmt.Sprint(name, "-", i)
		if m, err := b.park.Get(t.Context(), id); err != nil || m.State != redisbridge.StateParked || !m.Due.Equal(due[id]) {
			t.Errorf("%s: %+v (%v), want it parked, and due %v", id, m, err, due[id])
		}
		b.changed(t, redisbridge.OutcomeDone, 1)(b.park.Reschedule(t.Context(), id, message.After(2*time.Second+time.Duration(i)*50*time.Millisecond)))
	}
	b.changed(t, redisbridge.OutcomeCancelledBefore, 1)(b.park.Reschedule(t.Context(), name+"-cancelled", message.After(2*time.Second)))
}

// awaitDrilled waits for these messages, in one of some places.
func awaitDrilled(t *testing.T, name string, places ...*bench) {
	t.Helper()
	times := func(id string) (n int) {
		for _, b := range places {
			n += len(b.arrivals.of(id))
		}
		return n
	}
	for i := range drilled {
		id := fmt.Sprint(name, "-", i)
		until(t, id+" comes", func() bool { return times(id) > 0 })
	}
	for i := range drilled {
		if id := fmt.Sprint(name, "-", i); times(id) != 1 {
			t.Errorf("%s came %d times", id, times(id))
		}
	}
	if n := times(name + "-cancelled"); n > 0 {
		t.Errorf("%s was cancelled, and came %d times", name, n)
	}
}

func TestRecoverFromALostRedis(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	b.installed(t)
	b.run(t, nil)
	b.awaitBeat(t)
	due := b.parkDrilled(t, "m", time.Hour)
	file := exported(t, b.park)
	b.empty(t)
	b.awaitCondition(t, health.Foreign)
	b.adopt(t, true)
	importAll(t, b.park, file)
	b.bringForward(t, "m", due)
	awaitDrilled(t, "m", b)
}

func TestRecoverFromARolledBackRedis(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	stop := b.run(t, nil)
	b.awaitBeat(t)
	before := b.parkDrilled(t, "before", time.Hour)
	restore := b.remember(t, b.client.Pipelined, func() []string { return b.keys(t) })
	stop()
	if err := b.client.HSet(t.Context(), b.layoutKey(), "beat", 100).Err(); err != nil { // much later
		t.Fatal(err)
	}
	stop = b.run(t, nil)
	until(t, "RabbitMQ is told", func() bool { return b.layout(t, "beat") == "101" && b.messagesIn(t, b.topology.Installation()) == 1 })
	stop()
	since := b.parkDrilled(t, "since", time.Hour)
	file := exported(t, b.park)
	restore()
	b.run(t, nil)
	until(t, "it is refused", func() bool { return b.layout(t, "refused") != "" })
	b.adopt(t, true)
	importAll(t, b.park, file)
	b.bringForward(t, "before", before)
	b.bringForward(t, "since", since)
	awaitDrilled(t, "before", b)
	awaitDrilled(t, "since", b)
}

func TestRecoverWhenBothAreLost(t *testing.T) {
	t.Parallel()
	old := newBench(t, short())
	old.installed(t)
	stop := old.run(t, nil)
	old.awaitBeat(t)
	due := old.parkDrilled(t, "m", time.Hour)
	file := exported(t, old.park)
	stop()
	old.empty(t)
	b := old.elsewhere(t) // a RabbitMQ that knows nothing
	b.run(t, nil)
	importAll(t, b.park, file)
	b.bringForward(t, "m", due)
	awaitDrilled(t, "m", b)
	b.awaitOver(t, health.Foreign)
}

func TestMoveToAnotherRabbitMQ(t *testing.T) {
	t.Parallel()
	old := newBench(t, short())
	stop := old.run(t, nil)
	old.awaitBeat(t)
	other := old.elsewhere(t)
	old.parkDrilled(t, "soon", 2*time.Second) // some of it is in lanes when the bridges stop
	due := old.parkDrilled(t, "late", time.Hour)
	until(t, "some have come", func() bool { return len(old.arrivals.of("soon-0")) == 1 })
	stop()
	if a := other.adopt(t, true); !a.Adopted {
		t.Errorf("got %+v; want it adopted", a)
	}
	other.run(t, nil)
	other.bringForward(t, "late", due)
	awaitDrilled(t, "soon", old, other)
	awaitDrilled(t, "late", other)
	awaitForeign(t, old.start(t, func(*redisbridge.Config) {}))
}

// What waits goes to another Redis under the same prefix. It is adopted before publishers may park there, and they
// do before what waits comes.
func TestMoveToAnotherRedis(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	b.installed(t)
	stop := b.run(t, nil)
	b.awaitBeat(t)
	old := b.parkDrilled(t, "old", time.Hour)
	stop()
	file := exported(t, b.park)
	b.empty(t) // and so it is the new one
	b.park = b.publisher(t)
	if err := parkIn(t, b.park, "too-early"); !errors.Is(err, redisbridge.ErrForeign) {
		t.Errorf("who parks before it is adopted is told %v, want ErrForeign", err)
	}
	b.adopt(t, true)
	since := b.parkDrilled(t, "new", time.Hour)
	importAll(t, b.park, file)
	b.run(t, nil)
	b.bringForward(t, "old", old)
	b.bringForward(t, "new", since)
	awaitDrilled(t, "old", b)
	awaitDrilled(t, "new", b)
}

// What is in lanes goes with RabbitMQ, and an export has it until it is due. What is parked comes out of the new
// RabbitMQ.
func TestRecoverFromALostRabbitMQ(t *testing.T) {
	t.Parallel()
	c := topology.Config{Tiers: []time.Duration{10 * time.Second}, Lead: 10 * time.Second, Shards: 2}
	b, other := newBench(t, c), newBench(t, c)
	stop := b.run(t, nil)
	b.awaitBeat(t)
	parked := b.parkDrilled(t, "parked", time.Hour)
	due := map[string]time.Time{}
	for i := range drilled {
		id := fmt.Sprint("in-lane-", i)
		due[id] = b.parkOne(t, id, message.After(11*time.Second))
	}
	until(t, "the lanes have them", func() bool {
		for id := range due {
			m, err := b.park.Get(t.Context(), id)
			if err != nil || m.State != redisbridge.StateInLane && m.State != redisbridge.StateDue {
				return false
			}
		}
		return true
	})
	stop()
	b.loseTopology(t)
	file := exported(t, b.park)
	read := time.Now()
	b.run(t, nil)
	b.awaitComplete(t)
	if err := b.channel(t).QueueBind(queueName, "#", b.topology.ReadyExchange(), false, nil); err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(file, func(_ string, one redisbridge.Stored) bool { return one.State != redisbridge.StateInLane })
	importAll(t, other.park, file)
	other.run(t, nil)
	b.bringForward(t, "parked", parked)
	awaitDrilled(t, "parked", b)
	for id, at := range due {
		if at.After(read) { // otherwise it may have been due before the export came to it
			until(t, id+" comes", func() bool { return len(other.arrivals.of(id)) > 0 })
		}
		if n := len(b.arrivals.of(id)) + len(other.arrivals.of(id)); n > 1 {
			t.Errorf("%s came %d times", id, n)
		}
	}
}

// loseTopology removes what the broker has of it, with all messages.
func (b *bench) loseTopology(t *testing.T) {
	t.Helper()
	ch := b.channel(t)
	for _, x := range b.topology.Exchanges() {
		if err := ch.ExchangeDelete(x.Name, false, false); err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range b.topology.Queues() {
		if _, err := ch.QueueDelete(q.Name, false, false, false); err != nil {
			t.Fatal(err)
		}
	}
}
