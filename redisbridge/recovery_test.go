package redisbridge_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/internal/health"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
)

// The tests of this file take the steps of docs/recovery.md.

const drilled = 30 // messages

// parkDrilled parks messages that are due within some seconds of each other, and cancels one that no lane has.
func (b *bench) parkDrilled(t *testing.T, name string, after time.Duration) {
	t.Helper()
	for i := range drilled {
		b.parkOne(t, fmt.Sprint(name, "-", i), message.After(after+time.Duration(i)*50*time.Millisecond))
	}
	b.parkOne(t, name+"-cancelled", message.After(after+15*time.Second))
	b.changed(t, redisbridge.OutcomeDone, 1)(b.park.Cancel(t.Context(), name+"-cancelled"))
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
	b.parkDrilled(t, "m", 20*time.Second)
	file := exported(t, b.park)
	b.empty(t)
	b.awaitCondition(t, health.Foreign)
	b.adopt(t, true)
	importAll(t, b.park, file)
	awaitDrilled(t, "m", b)
}

func TestRecoverFromARolledBackRedis(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	stop := b.run(t, nil)
	b.awaitBeat(t)
	b.parkDrilled(t, "before", 25*time.Second)
	restore := b.remember(t, b.client.Pipelined, func() []string { return b.keys(t) })
	stop()
	if err := b.client.HSet(t.Context(), b.layoutKey(), "beat", 100).Err(); err != nil { // much later
		t.Fatal(err)
	}
	stop = b.run(t, nil)
	until(t, "RabbitMQ is told", func() bool { return b.layout(t, "beat") == "101" && b.messagesIn(t, b.topology.Installation()) == 1 })
	stop()
	b.parkDrilled(t, "since", 25*time.Second)
	file := exported(t, b.park)
	restore()
	b.run(t, nil)
	until(t, "it is refused", func() bool { return b.layout(t, "refused") != "" })
	b.adopt(t, true)
	importAll(t, b.park, file)
	awaitDrilled(t, "before", b)
	awaitDrilled(t, "since", b)
}

func TestRecoverWhenBothAreLost(t *testing.T) {
	t.Parallel()
	old := newBench(t, short())
	old.installed(t)
	stop := old.run(t, nil)
	old.awaitBeat(t)
	old.parkDrilled(t, "m", 20*time.Second)
	file := exported(t, old.park)
	stop()
	old.empty(t)
	b := old.elsewhere(t) // a RabbitMQ that knows nothing
	b.run(t, nil)
	importAll(t, b.park, file)
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
	old.parkDrilled(t, "late", 15*time.Second)
	until(t, "some have come", func() bool { return len(old.arrivals.of("soon-0")) == 1 })
	stop()
	if a := other.adopt(t, true); !a.Adopted {
		t.Errorf("got %+v; want it adopted", a)
	}
	other.run(t, nil)
	awaitDrilled(t, "soon", old, other)
	awaitDrilled(t, "late", other)
	awaitForeign(t, old.start(t, func(*redisbridge.Config) {}))
}
