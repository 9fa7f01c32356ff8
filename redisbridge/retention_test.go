package redisbridge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/redisbridge"
)

const tooLong = "in a queue for longer than its retention"

// hasRemoved reports whether a message was removed for its age.
func hasRemoved(said *logCapture, id string) bool {
	for line := range strings.Lines(said.all()) {
		if strings.Contains(line, tooLong) && strings.Contains(line, " id="+id+" ") {
			return true
		}
	}
	return false
}

// publishAt publishes a message with a header, and wants the broker to have it.
func (b *bench) publishAt(t *testing.T, exchange, key, id string, headers amqp.Table) {
	t.Helper()
	ok, err := publishOn(t, b.dial(t), exchange, key, amqp.Publishing{MessageId: id, DeliveryMode: amqp.Persistent, Headers: headers})
	if err != nil || !ok {
		t.Fatal(id, ok, err)
	}
}

// idsIn returns the IDs of what a queue has, in their order, and leaves it there.
func (b *bench) idsIn(t *testing.T, queue string) (ids []string) {
	t.Helper()
	ch := b.channel(t)
	for {
		d, found, err := ch.Get(queue, false)
		if err != nil {
			t.Fatal(err)
		}
		if !found {
			break
		}
		ids = append(ids, d.MessageId)
	}
	if err := ch.Close(); err != nil { // gives all back
		t.Fatal(err)
	}
	return ids
}

// What was in quarantine for longer than the retention goes, from the front of the queue to the first message
// that was not. One that does not say since when it is there stays, and holds up none behind it.
func TestOldMessagesGo(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, short(), servertest.ForTest(t))
	quarantine, unrouted := b.topology.Quarantine(), b.topology.Unrouted()
	quarantined := func(id string, ago time.Duration) {
		b.publishAt(t, quarantine, "order.unpaid", id, amqp.Table{wire.HeaderQuarantined: time.Now().Add(-ago).UTC().Format(time.RFC3339)})
	}
	quarantined("old-1", 3*time.Hour)
	b.publishAt(t, quarantine, "order.unpaid", "undated-1", nil)
	b.publishAt(t, "", quarantine, "undated-2", amqp.Table{wire.HeaderQuarantined: "2020-01-01T00:00:00Z"}) // by anybody
	quarantined("old-2", 2*time.Hour)
	quarantined("young", 0)
	quarantined("old-3", 4*time.Hour)

	said := newLogCapture()
	stop := b.run(t, func(c *redisbridge.Config) {
		c.RetainQuarantine, c.RetainUnrouted, c.BrokerClockWithin = time.Hour, time.Hour, time.Second
		c.RepairEvery = 100 * time.Millisecond
		c.Logger = said.logger()
	})
	for _, id := range []string{"old-1", "old-2"} {
		until(t, id+" is removed", func() bool { return hasRemoved(said, id) })
	}
	for round := range 2 { // between the two it has looked at each queue
		id := fmt.Sprint("round-", round)
		b.publishAt(t, "", unrouted, id, amqp.Table{wire.HeaderBrokerTimestamp: time.Now().Add(-2 * time.Hour).UnixMilli()})
		until(t, id+" is removed", func() bool { return hasRemoved(said, id) })
	}
	if n := said.count(tooLong); n != 4 {
		t.Errorf("%d messages are removed, want old-1, old-2 and those of two rounds:\n%s", n, said.all())
	}
	if n := said.count("do not say since when"); n != 1 {
		t.Errorf("it is said %d times that messages do not say since when they are there", n)
	}
	reportWhen(t, b.park, "the bridge tells what it has removed", func(r redisbridge.BridgeStats) bool {
		return r.Removed[quarantine] == redisbridge.Removed{Old: 2} && r.Removed[unrouted] == redisbridge.Removed{Old: 2}
	})
	stop()
	b.holds(t, quarantine, 4) // once all is given back
	// What was looked at and given back may change its place (RabbitMQ 3.10).
	if got, want := slices.Sorted(slices.Values(b.idsIn(t, quarantine))), []string{"old-3", "undated-1", "undated-2", "young"}; !slices.Equal(got, want) {
		t.Errorf("quarantine has %q, want %q", got, want)
	}
}

// The retention runs from when the broker or a bridge brought the message there, and is over before
// the message goes.
func TestRetentionIsOverFirst(t *testing.T) {
	t.Parallel()
	const retain = 3 * time.Second
	b := newBenchAt(t, short(), servertest.ForTest(t))
	ch := b.channel(t)
	if _, err := ch.QueueDelete(queueName, false, false, false); err != nil { // so that nobody has bound a queue
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare("rejects", true, false, false, false, amqp.Table{"x-dead-letter-exchange": b.topology.Quarantine()}); err != nil {
		t.Fatal(err)
	}
	said := newLogCapture()
	b.run(t, func(c *redisbridge.Config) {
		c.RetainQuarantine, c.RetainUnrouted = retain, retain
		c.RepairEvery = 100 * time.Millisecond
		c.Logger = said.logger()
	})
	b.publishAt(t, "", "rejects", "rejected", nil)
	var d amqp.Delivery
	until(t, "the queue has what it is to reject", func() bool {
		var found bool
		var err error
		if d, found, err = ch.Get("rejects", false); err != nil {
			t.Fatal(err)
		}
		return found
	})
	tier := b.topology.Tiers()[0].TTL
	least := map[string]time.Time{"in-a-tier": time.Now().Add(tier + retain), "senseless": time.Now().Add(retain), "rejected": time.Now().Add(retain)}
	b.publishAt(t, b.topology.EntryExchange(), "order.unpaid", "in-a-tier", amqp.Table{wire.HeaderDelay: tier.Milliseconds()})
	b.publishAt(t, b.topology.EntryExchange(), "order.unpaid", "senseless", amqp.Table{wire.HeaderDelay: "soon"})
	if err := d.Reject(false); err != nil {
		t.Fatal(err)
	}
	until(t, "all are removed", func() bool {
		for id, at := range least {
			if !hasRemoved(said, id) {
				continue
			}
			if early := time.Until(at); early > 0 {
				t.Errorf("%s is removed %v early:\n%s", id, early, said.all())
			}
			delete(least, id)
		}
		return len(least) == 0
	})
	if n := said.count(tooLong); n != 3 {
		t.Errorf("%d messages are removed, want 3:\n%s", n, said.all())
	}
}
