package redisbridge_test

import (
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/internal/health"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
)

// What a later release has written is no poison to a bridge that cannot read it: it waits for a bridge that can.
func TestWhatALaterReleaseHasWrittenWaits(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	const id, head = "m", 22 // bytes in front of the envelope, when it is parked
	b.parkOne(t, id, message.After(time.Hour))
	key := redisbridge.EnvelopesOf(b.topology, id)
	stored, err := b.client.HGet(t.Context(), key, id).Result()
	if err != nil {
		t.Fatal(err)
	}
	size := len(stored) - head
	write := func(version byte) {
		t.Helper()
		envelope := len(stored) - size
		if err := b.client.HSet(t.Context(), key, id, stored[:envelope]+string(version)+stored[envelope+1:]).Err(); err != nil {
			t.Fatal(err)
		}
	}
	write(2)
	b.changed(t, redisbridge.OutcomeDone, 1)(b.park.Reschedule(t.Context(), id, message.After(1100*time.Millisecond)))
	if stored, err = b.client.HGet(t.Context(), key, id).Result(); err != nil {
		t.Fatal(err)
	}
	b.run(t, repairOften)
	b.awaitCondition(t, health.Newer)
	other := b.parkOne(t, "other", message.After(1100*time.Millisecond))
	if got := b.arrivals.awaitID(t, "other"); got.at.Before(other) {
		t.Errorf("came %v early", other.Sub(got.at))
	}
	if n := b.messagesIn(t, b.topology.Quarantine()); n != 0 {
		t.Errorf("%d messages are in quarantine", n)
	}
	write(1) // as a bridge of that release reads it
	b.arrivals.awaitID(t, id)
}
