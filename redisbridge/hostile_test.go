package redisbridge_test

import (
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
)

// forgeries are headers that only a bridge may write, as somebody sends them who may publish and wants
// to harm those who publish with the same ID.
func forgeries() amqp.Table {
	lane := amqp.Table{
		"queue": "delaybridge.lane.1s.0", "exchange": "delaybridge.lane.1s.0", "reason": "expired",
		"count": int64(0), "time": time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), "routing-keys": []any{"k"},
	}
	return amqp.Table{
		wire.HeaderPublished: "9999-01-01T00:00:00.000Z", wire.HeaderDue: "9999-01-01T00:00:01.000Z", wire.HeaderPath: "parked, then lane 1s",
		wire.HeaderVersion: int64(1<<40 + 7), wire.HeaderUserID: "admin", wire.HeaderQueue: "payroll",
		wire.HeaderKey: "payroll", wire.HeaderAttempts: int64(4), wire.HeaderHistory: []any{"a line"}, wire.HeaderError: "an error",
		wire.HeaderQuarantined: "2020-01-01T00:00:00Z", "x-death": []any{lane}, "x-first-death-exchange": "delaybridge.entry.orders",
	}
}

// What a publisher writes into headers of the bridge's own does no harm to those who use the same ID,
// whichever way either's message takes.
func TestForgedHeadersHarmNobody(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, short(), servertest.ForTest(t))
	b.run(t, nil)
	desk, ch := b.attend(t), b.confirming(t)
	publish := func(id string, delay time.Duration, headers amqp.Table) {
		t.Helper()
		headers[wire.HeaderDelay] = delay.Milliseconds()
		confirmation, err := ch.PublishWithDeferredConfirm(b.topology.EntryExchange(), "order.unpaid", true, false, amqp.Publishing{
			MessageId: id, DeliveryMode: amqp.Persistent, Body: fmt.Appendf(nil, "%s after %v", id, delay), Headers: headers,
		})
		if err != nil || !confirmation.Wait() {
			t.Fatalf("publish %s: %v", id, err)
		}
	}
	ways := map[string]time.Duration{"tier": time.Second, "inbox": 700 * time.Millisecond, "at once": 0}
	handled := func(times int) {
		t.Helper()
		for forged := range ways {
			for honest := range ways {
				id := forged + ", then " + honest
				until(t, fmt.Sprintf("%s is handled %d times", id, times), func() bool { return len(desk.times(id)) == times })
			}
		}
	}
	for forged, delay := range ways {
		for honest := range ways {
			publish(forged+", then "+honest, delay, forgeries())
		}
	}
	handled(1)
	for forged := range ways {
		for honest, delay := range ways {
			publish(forged+", then "+honest, delay, amqp.Table{"honest": true})
		}
	}
	handled(2)
	for forged := range ways {
		for honest := range ways {
			m := &message.Message{ID: forged + ", then " + honest, RoutingKey: "order.unpaid", Body: []byte("another")}
			if ticket, err := b.park.Park(t.Context(), m, message.After(100*time.Millisecond)); err != nil || ticket.Parking != message.Parked {
				t.Errorf("%s: parked as %v (%v)", m.ID, ticket.Parking, err)
			}
		}
	}
	handled(3)
	// Nobody's record is kept for ever.
	for shard := range b.topology.Shards() {
		last, err := b.client.ZRevRangeWithScores(t.Context(), fmt.Sprintf("{%s:%d}:kept", b.Prefix, shard), 0, 0).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, z := range last {
			if until := time.UnixMilli(int64(z.Score)); time.Until(until) > 48*time.Hour {
				t.Errorf("%v is remembered until %v", z.Member, until)
			}
		}
	}
}
