package redisbridge_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
)

// limited returns a park with a quota for the direct entry.
func (b *bench) limited(t *testing.T, q redisbridge.Quota) *redisbridge.Park {
	t.Helper()
	park, err := redisbridge.NewPark(redisbridge.ParkConfig{
		Client: b.client, Topology: b.topology, Quotas: map[string]redisbridge.Quota{amqp.ExchangeDirect: q},
	})
	if err != nil {
		t.Fatal(err)
	}
	return park
}

func ofEntry(entry, id, body string) *message.Message {
	return &message.Message{ID: id, Entry: entry, RoutingKey: entryKey, Body: []byte(body)}
}

func parkOf(t *testing.T, park *redisbridge.Park, m *message.Message, d time.Duration) (message.Parking, error) {
	t.Helper()
	ticket, err := park.Park(t.Context(), m, message.After(d))
	return ticket.Parking, err
}

func (b *bench) usage(t *testing.T, entry string) redisbridge.Usage {
	t.Helper()
	s, err := b.park.Stats(t.Context(), redisbridge.StatsOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s.Entries[entry]
}

// What is over a quota is refused, what waits already is not, and no other entry is touched.
func TestQuotaOfAnEntry(t *testing.T) {
	t.Parallel()
	const most = 5
	b := newBench(t, withEntries(short(), amqp.ExchangeDirect, amqp.ExchangeTopic))
	park := b.limited(t, redisbridge.Quota{Messages: most, Delay: 2 * time.Hour, Body: 1000})
	direct := func(id string) *message.Message { return ofEntry(amqp.ExchangeDirect, id, id) }
	for n := range most {
		if got, err := parkOf(t, park, direct(fmt.Sprint("m-", n)), time.Hour); got != message.Parked || err != nil {
			t.Fatalf("message %d: %v, %v", n, got, err)
		}
	}
	if u := b.usage(t, amqp.ExchangeDirect); u.Messages != most || u.Bytes == 0 {
		t.Errorf("usage %+v, want %d messages", u, most)
	}
	_, err := parkOf(t, park, direct("one-more"), time.Hour)
	if !errors.Is(err, redisbridge.ErrQuota) || errors.Is(err, redisbridge.ErrInvalid) || !strings.Contains(err.Error(), `entry "direct" has 5 messages, of 5 at most`) {
		t.Errorf("one more: %v", err)
	}
	if got, err := parkOf(t, park, direct("m-0"), time.Hour); got != message.ParkedBefore || err != nil {
		t.Errorf("again: %v, %v, want ParkedBefore", got, err)
	}
	for _, entry := range []string{"", amqp.ExchangeTopic} {
		if got, err := parkOf(t, park, ofEntry(entry, "one-more", "x"), time.Hour); got != message.Parked || err != nil {
			t.Errorf("entry %q: %v, %v", entry, got, err)
		}
	}
	again := *direct("m-0") // its retry
	again.Journey.Queue = "q"
	if err := park.Delay(t.Context(), &again, time.Hour); err != nil {
		t.Errorf("a retry: %v", err)
	}
	for _, id := range []string{"m-0", "m-1"} { // of which one makes up for the retry
		if _, err := park.OfEntry(amqp.ExchangeDirect).Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := parkOf(t, park, direct("one-more"), time.Hour); got != message.Parked || err != nil {
		t.Errorf("after a cancellation: %v, %v", got, err)
	}
}

func TestQuotaThatNeverLetsAMessageIn(t *testing.T) {
	t.Parallel()
	b := newBench(t, withEntries(short(), amqp.ExchangeDirect))
	park := b.limited(t, redisbridge.Quota{Delay: 2 * time.Hour, Body: 1000, Bytes: 3000})
	for name, tc := range map[string]struct {
		body  int
		delay time.Duration
		says  string // or it is parked
	}{
		"the longest, and the largest": {1000, 2 * time.Hour, ""},
		"too long":                     {1, 2*time.Hour + time.Millisecond, `the delay is 7200001ms, and entry "direct" takes 2h at most`},
		"too large":                    {1001, time.Hour, `the body has 1001 bytes, and entry "direct" takes 1000 at most`},
	} {
		got, err := parkOf(t, park, ofEntry(amqp.ExchangeDirect, name, strings.Repeat("x", tc.body)), tc.delay)
		switch {
		case tc.says == "" && (got != message.Parked || err != nil):
			t.Errorf("%s: %v, %v", name, got, err)
		case tc.says != "" && (!errors.Is(err, redisbridge.ErrQuota) || !errors.Is(err, redisbridge.ErrInvalid) || !strings.Contains(err.Error(), tc.says)):
			t.Errorf("%s: %v, want %q", name, err, tc.says)
		}
	}
	if _, err := parkOf(t, park, ofEntry(amqp.ExchangeDirect, "second", strings.Repeat("x", 1000)), time.Hour); err != nil {
		t.Error(err)
	}
	_, err := parkOf(t, park, ofEntry(amqp.ExchangeDirect, "third", strings.Repeat("x", 1000)), time.Hour)
	if !errors.Is(err, redisbridge.ErrQuota) || errors.Is(err, redisbridge.ErrInvalid) || !strings.Contains(err.Error(), "of 3000 at most") {
		t.Errorf("too many bytes: %v", err)
	}
}

// A flood into one entry ends in quarantine, with the reason, and those who publish to another
// one notice nothing. Once there is room, a message is taken again.
func TestFloodOverAQuota(t *testing.T) {
	t.Parallel()
	const most, flood = 20, 200
	b := newBenchAt(t, withEntries(short(), amqp.ExchangeDirect), servertest.ForTest(t))
	b.run(t, func(c *redisbridge.Config) {
		c.Quotas = map[string]redisbridge.Quota{amqp.ExchangeDirect: {Messages: most}}
	})
	honest := b.newMailbox(t, queueName)
	var forever, soon []amqp.Publishing
	for n := range flood {
		forever = append(forever, amqp.Publishing{MessageId: fmt.Sprint("flood-", n), Headers: amqp.Table{"x-delay": int64(message.MaxDelay / time.Millisecond)}})
	}
	for n := range 20 {
		soon = append(soon, amqp.Publishing{MessageId: fmt.Sprint("honest-", n), Headers: amqp.Table{"x-delay": int64(1234)}})
	}
	b.publishTo(t, b.topology.EntryExchangeOf(amqp.ExchangeDirect), forever...)
	b.publishEntry(t, soon...)
	for _, p := range soon {
		honest.await(t, p.MessageId, 1)
	}
	b.holds(t, b.topology.Quarantine(), flood-most)
	d := b.awaitIn(t, b.topology.Quarantine())
	if reason := fmt.Sprint(d.Headers[wire.HeaderError]); !strings.Contains(reason, `over its entry's quota: entry "direct" has 20 messages`) {
		t.Errorf("%s: the reason is %q", d.MessageId, reason)
	}
	s, err := b.park.Stats(t.Context(), redisbridge.StatsOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n := s.Entries[amqp.ExchangeDirect].Messages; n != most {
		t.Errorf("%d messages are stored, want %d", n, most)
	}
	until(t, "the bridge tells how many it has refused", func() bool {
		s, err := b.park.Stats(t.Context(), redisbridge.StatsOptions{})
		return err == nil && len(s.Bridges) == 1 && s.Bridges[0].Refused[amqp.ExchangeDirect] == flood-most
	})
}

// Whatever becomes of messages, nothing is left of what was stored of them.
func TestUsageEndsWithTheMessages(t *testing.T) {
	t.Parallel()
	b := newBench(t, withEntries(short(), amqp.ExchangeDirect))
	b.run(t, nil)
	for _, entry := range []string{"", amqp.ExchangeDirect} {
		for n := range 10 {
			if _, err := parkOf(t, b.park, ofEntry(entry, fmt.Sprint("m-", n), "body"), 2*time.Second+time.Duration(n)*100*time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
	}
	until(t, "nothing is stored", func() bool {
		s, err := b.park.Stats(t.Context(), redisbridge.StatsOptions{})
		return err == nil && len(s.Entries) == 0
	})
}

// The oldest messages of a queue that is over its limit go, and each is in the log.
func TestQueuesAreKeptShort(t *testing.T) {
	t.Parallel()
	const keep, n = 3, 8
	b := newBenchAt(t, short(), servertest.ForTest(t))
	said := &logCapture{}
	b.run(t, func(c *redisbridge.Config) {
		c.KeepUnrouted, c.KeepQuarantine = keep, keep
		c.RepairEvery = 100 * time.Millisecond
		c.Logger = said.logger()
	})
	conn := b.dial(t)
	for i := range n {
		for _, queue := range []string{b.topology.Unrouted(), b.topology.Quarantine()} {
			ok, err := publishOn(t, conn, "", queue, amqp.Publishing{MessageId: fmt.Sprint(queue, "-", i), DeliveryMode: amqp.Persistent})
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
		}
	}
	for _, queue := range []string{b.topology.Unrouted(), b.topology.Quarantine()} {
		b.holds(t, queue, keep)
		for i := range n {
			line := fmt.Sprintf("queue=%s limit=%d id=%s-%d ", queue, keep, queue, i)
			if i < n-keep {
				said.await(t, line)
			} else if said.count(line) > 0 {
				t.Errorf("%s is removed", line)
			}
		}
	}
}

// Records that are more than one call reads are forgotten by several, and weighed all the same.
func TestLargeRecordsAreForgottenInSteps(t *testing.T) {
	t.Parallel()
	b := newBench(t, withEntries(short(), amqp.ExchangeDirect))
	b.run(t, nil)
	due := message.At(time.Now().Add(4 * time.Second))
	for n := range 14 {
		if _, err := b.park.Park(t.Context(), ofEntry(amqp.ExchangeDirect, fmt.Sprint("m-", n), strings.Repeat("x", 1<<20)), due); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "nothing is stored", func() bool { return b.usage(t, amqp.ExchangeDirect) == redisbridge.Usage{} })
}
