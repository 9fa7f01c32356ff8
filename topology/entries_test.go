package topology_test

import (
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/topology"
)

// newEntriesBench has an entry of each kind, named after it, and behind each
// ready exchange a queue, named after its entry. The default one's is "".
func newEntriesBench(t testing.TB) *bench {
	t.Helper()
	b := newBench(t)
	var entries []topology.Entry
	for _, kind := range []string{amqp.ExchangeDirect, amqp.ExchangeTopic, amqp.ExchangeFanout, amqp.ExchangeHeaders} {
		entries = append(entries, topology.Entry{Name: kind, Kind: kind})
	}
	b.Topology = describe(t, topology.Config{
		Prefix: b.Prefix(), Tiers: []time.Duration{time.Second, 30 * time.Second}, Lead: time.Second, Shards: 1, Entries: entries,
	})
	b.apply(t)
	ch := b.channel(t)
	for entry, binding := range map[string]struct {
		key  string
		args amqp.Table
	}{
		"":        {key: "order.*"},
		"direct":  {key: "order.created"},
		"topic":   {key: "order.#"},
		"fanout":  {},
		"headers": {args: amqp.Table{"x-match": "all", "shop": int64(7)}},
	} {
		if _, err := ch.QueueDeclare(behind(entry), true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
			t.Fatal(err)
		}
		if err := ch.QueueBind(behind(entry), binding.key, b.ReadyExchangeOf(entry), false, binding.args); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func behind(entry string) string { return "behind-" + entry }

// only expects the message with that ID behind the entry's ready exchange, and
// nothing anywhere else.
func (b *bench) only(t testing.TB, what, entry, id string) amqp.Delivery {
	t.Helper()
	got := b.await(t, behind(entry))
	if got.MessageId != id || got.RoutingKey != "order.created" || got.Headers["shop"] != int64(7) {
		t.Errorf("%s: got message %q with key %q and headers %v behind %q", what, got.MessageId, got.RoutingKey, got.Headers, entry)
	}
	queues := []string{behind("")}
	for _, e := range b.Entries() {
		queues = append(queues, behind(e.Name))
	}
	for _, q := range b.Queues() {
		queues = append(queues, q.Name)
	}
	for _, q := range queues {
		if n := b.ready(t, q); n != 0 {
			t.Errorf("%s: %d more messages in %s", what, n, q)
		}
	}
	return got
}

// What enters by an entry leaves by its ready exchange: nothing but the broker
// is running.
func TestAnEntryLeadsToItsReadyExchange(t *testing.T) {
	t.Parallel()
	b := newEntriesBench(t)
	for i, entry := range []string{"", "direct", "topic", "fanout", "headers"} {
		for _, delay := range []int64{0, 1000} {
			id := fmt.Sprintf("%d-%d", i, delay)
			what := fmt.Sprintf("entry %q, delay %d", entry, delay)
			// A header that is left of an earlier journey plays no part.
			headers := amqp.Table{"x-delay": delay, "shop": int64(7), "x-delaybridge-entry": "topic"}
			b.publish(t, b.EntryExchangeOf(entry), "order.created", amqp.Publishing{MessageId: id, Headers: headers})
			b.only(t, what, entry, id)
		}
		headers := amqp.Table{"shop": int64(7)}
		if entry != "" {
			headers["x-delaybridge-entry"] = entry
		}
		what := fmt.Sprintf("lane, entry %q", entry)
		b.publish(t, b.LaneOf(entry, time.Second, 0), "order.created", amqp.Publishing{MessageId: what, Headers: headers})
		b.only(t, what, entry, what)
	}
}

// A tier's own exchange, through which the Go producer publishes, and an entry
// that is not described lead to the default ready exchange.
func TestWhatNoEntryClaimsIsTheDefaultOnes(t *testing.T) {
	t.Parallel()
	b := newEntriesBench(t)
	b.publish(t, b.Tiers()[0].Name, "order.created", amqp.Publishing{
		MessageId: "tier", Headers: amqp.Table{"shop": int64(7), "x-delaybridge-entry": "topic"},
	})
	b.only(t, "tier", "", "tier")
	for what, lane := range map[string]string{"lane": b.lane(), "lane of entries": b.LaneOf("unknown", time.Second, 0)} {
		b.publish(t, lane, "order.created", amqp.Publishing{
			MessageId: what, Headers: amqp.Table{"shop": int64(7), "x-delaybridge-entry": "unknown"},
		})
		b.only(t, what, "", what)
	}
}

// rabbitMQ4 reports whether the broker ignores an x-death that a client sends,
// and notes by which exchange a message last came.
func (b *bench) rabbitMQ4() bool {
	version, _ := b.conn.Properties["version"].(string)
	return version >= "4"
}

// A message that still has the broker's account of an earlier journey comes out
// where its entry says from RabbitMQ 4.0 on. Before, it comes out where that earlier
// journey began, if its entry is not the default one: hence the advice to take
// x-death out.
func TestLeftoversOfAnEarlierJourney(t *testing.T) {
	t.Parallel()
	b := newEntriesBench(t)
	headers := amqp.Table{"x-delay": int64(1000), "shop": int64(7)}
	b.publish(t, b.EntryExchangeOf("direct"), "order.created", amqp.Publishing{MessageId: "1", Headers: headers})
	first := b.only(t, "first journey", "direct", "1")
	for _, entry := range []string{"fanout", ""} {
		want := entry
		if entry != "" && !b.rabbitMQ4() {
			want = "direct"
		}
		what := fmt.Sprintf("from direct to %q", entry)
		b.publish(t, b.EntryExchangeOf(entry), "order.created", amqp.Publishing{MessageId: what, Headers: first.Headers})
		b.only(t, what, want, what)

		stripped := amqp.Table{}
		for name, value := range first.Headers {
			if name != "x-death" {
				stripped[name] = value
			}
		}
		b.publish(t, b.EntryExchangeOf(entry), "order.created", amqp.Publishing{MessageId: what, Headers: stripped})
		b.only(t, what+", without x-death", entry, what)
	}
}

// An entry that is not tracked is no dead-letter exchange for messages that may come
// back to the same queue. Of others the broker notes where they belong. RabbitMQ 3.10 knows only by which exchange a message came
// before it died first.
func TestDeadLetteredIntoAnEntry(t *testing.T) {
	t.Parallel()
	b := newEntriesBench(t)
	for _, c := range []struct{ from, key, into, otherwise string }{
		{from: "amq.topic", key: "order.*", into: "fanout", otherwise: ""},
		{from: b.ReadyExchangeOf("topic"), key: "retry", into: "direct", otherwise: "topic"},
		{from: b.ReadyExchangeOf("topic"), key: "retry", into: "", otherwise: ""},
	} {
		ch := b.channel(t)
		if _, err := ch.QueueDeclare("retrying", true, false, false, false, amqp.Table{
			"x-queue-type": "quorum", "x-dead-letter-exchange": b.EntryExchangeOf(c.into), "x-dead-letter-routing-key": "order.created",
		}); err != nil {
			t.Fatal(err)
		}
		if err := ch.QueueBind("retrying", c.key, c.from, false, nil); err != nil {
			t.Fatal(err)
		}
		message := amqp.Publishing{MessageId: c.from, Headers: amqp.Table{"x-delay": int64(1000), "shop": int64(7)}}
		if c.from == "amq.topic" {
			b.publish(t, c.from, "order.created", message)
		} else {
			b.publish(t, b.EntryExchangeOf("topic"), "retry", message)
		}
		eventually(t, "a message to reject", func() bool {
			d, ok, err := ch.Get("retrying", false)
			if err != nil {
				t.Fatal(err)
			}
			return ok && d.Reject(false) == nil
		})
		want := c.into
		if !b.rabbitMQ4() {
			want = c.otherwise
		}
		b.only(t, fmt.Sprintf("from %s into %q", c.from, c.into), want, c.from)
		if _, err := ch.QueueDelete("retrying", false, false, false); err != nil {
			t.Fatal(err)
		}
	}
}
