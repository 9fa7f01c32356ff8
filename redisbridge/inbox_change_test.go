package redisbridge_test

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
)

// While no bridge runs, foreign clients' messages wait in the inbox, where Redis knows
// nothing of them. What was changed meanwhile holds nevertheless, also for what is due
// by then.
func TestChangesReachTheInbox(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, short(), servertest.ForTest(t))
	desk, ch := b.attend(t), b.confirming(t)
	delays := map[string]time.Duration{"due at once": -time.Millisecond, "due meanwhile": 100 * time.Millisecond, "due later": 7 * time.Second}
	moved := map[string]time.Time{}
	for name, delay := range delays {
		for _, id := range []string{name + ", cancelled", name + ", moved", name} {
			b.enter(t, ch, id, delay)
		}
		if change, err := b.park.Cancel(t.Context(), name+", cancelled"); err != nil || change.Outcome != redisbridge.OutcomeRecorded {
			t.Fatalf("got %+v, %v; want that nothing is known", change, err)
		}
		change, err := b.park.Reschedule(t.Context(), name+", moved", message.After(4*time.Second))
		if err != nil || change.Outcome != redisbridge.OutcomeRecorded {
			t.Fatalf("got %+v, %v; want that nothing is known", change, err)
		}
		moved[name+", moved"] = change.Due
	}
	waitUntil(t, time.Now().Add(delays["due meanwhile"]))
	b.run(t, nil)
	for name := range delays {
		until(t, name, func() bool { return len(desk.times(name)) == 1 })
	}
	for id, due := range moved {
		until(t, id, func() bool { return len(desk.times(id)) > 0 })
		if early := due.Sub(desk.times(id)[0]); early > 0 {
			t.Errorf("%s: %v early", id, early)
		}
	}
	b.parkOne(t, "last", message.After(5*time.Second))
	until(t, "last", func() bool { return len(desk.times("last")) == 1 })
	for name := range delays {
		if got := desk.times(name + ", cancelled"); got != nil {
			t.Errorf("%s: cancelled, and handled at %v", name, got)
		}
		if got := desk.times(name + ", moved"); len(got) != 1 {
			t.Errorf("%s: handled %d times", name, len(got))
		}
	}
}

// What is due at once goes straight from the inbox to its consumer. However long it
// waits for a bridge, a change made meanwhile is not taken for one of an earlier
// message with the same ID.
func TestChangesOfWhatTheInboxHandsOn(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, short(), servertest.ForTest(t))
	desk, ch := b.attend(t), b.confirming(t)
	for _, id := range []string{"cancelled", "moved", "neither"} {
		confirmation, err := ch.PublishWithDeferredConfirm(b.topology.EntryExchange(), "order.unpaid", true, false, amqp.Publishing{
			MessageId: id, DeliveryMode: amqp.Persistent, Headers: amqp.Table{wire.HeaderDeliverAt: time.Now().Add(-time.Minute).UnixMilli()},
		})
		if err != nil || !confirmation.Wait() {
			t.Fatalf("%s: not published: %v", id, err)
		}
	}
	change, err := b.park.Cancel(t.Context(), "cancelled")
	if err != nil || change.Outcome != redisbridge.OutcomeRecorded {
		t.Errorf("cancelled: got %+v, %v; want it recorded", change, err)
	}
	if change, err = b.park.Reschedule(t.Context(), "moved", message.After(9*time.Second)); err != nil || change.Outcome != redisbridge.OutcomeRecorded {
		t.Errorf("rescheduled: got %+v, %v; want it recorded", change, err)
	}
	waitUntil(t, time.Now().Add(6*time.Second)) // longer than clocks may differ (lua/arrive.lua)
	b.run(t, nil)
	until(t, "the others are handled", func() bool { return len(desk.times("neither")) > 0 && len(desk.times("moved")) > 0 })
	if early := change.Due.Sub(desk.times("moved")[0]); early > 0 {
		t.Errorf("%v before its new time", early)
	}
	if got := desk.times("cancelled"); got != nil {
		t.Errorf("the cancelled one was handled at %v", got)
	}
}
