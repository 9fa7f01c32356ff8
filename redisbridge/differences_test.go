package redisbridge_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/internal/wiretest"
	"github.com/delaybridge/delaybridge/message"
)

// by is what a property or header arrives as, by each way.
type by map[string]func(*amqp.Delivery) error

// in wants a header of that value.
func in(name string, want any) func(*amqp.Delivery) error {
	return func(d *amqp.Delivery) error {
		if got, ok := d.Headers[name]; !ok && want != nil || !wiretest.Same(got, want) {
			return fmt.Errorf("header %s is %#v, want %#v", name, got, want)
		}
		return nil
	}
}

// is wants a property of that value.
func is(property func(*amqp.Delivery) any, want any) func(*amqp.Delivery) error {
	return func(d *amqp.Delivery) error {
		if got := property(d); got != want {
			return fmt.Errorf("the property is %#v, want %#v", got, want)
		}
		return nil
	}
}

func all(checks ...func(*amqp.Delivery) error) func(*amqp.Delivery) error {
	return func(d *amqp.Delivery) error {
		for _, check := range checks {
			if err := check(d); err != nil {
				return err
			}
		}
		return nil
	}
}

// oldest is an entry of the first death, which the broker lists last.
func oldest(d *amqp.Delivery, entry string) any {
	deaths, _ := d.Headers["x-death"].([]any)
	if len(deaths) == 0 {
		return nil
	}
	table, _ := deaths[len(deaths)-1].(amqp.Table)
	return table[entry]
}

// Each row of the contract's table of differences, by each way. That there are no
// others shows TestEachPropertyOfAForeignMessage.
func TestDocumentedDifferences(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, short(), servertest.ForTest(t))
	b.run(t, nil)
	user := userOf(t, b.AMQPURL)
	mode := func(d *amqp.Delivery) any { return d.DeliveryMode }
	expiration := func(d *amqp.Delivery) any { return d.Expiration }
	userID := func(d *amqp.Delivery) any { return d.UserId }
	priority := func(d *amqp.Delivery) any { return d.Priority }
	messageID := func(d *amqp.Delivery) any { return d.MessageId != "" }
	original := func(d *amqp.Delivery) any { return oldest(d, "original-expiration") }
	restored := func(d *amqp.Delivery) any { return message.FromDelivery(d).Expiration }
	asked := func(d *amqp.Delivery) any { return b.topology.Message(d).Headers[wire.HeaderDeliveryTime] }
	major, _ := version(t, b.dial(t))
	oldDeath := func(d *amqp.Delivery) any { return strings.Contains(fmt.Sprint(d.Headers["x-death"]), "elsewhere") }
	old := amqp.Table{"x-death": []any{amqp.Table{"queue": "elsewhere", "reason": "expired", "count": int64(1), "exchange": "x", "routing-keys": []any{"k"}, "time": time.Unix(1, 0)}}}

	const withoutID = "`message-id`, where there is none"
	tested := map[string]struct {
		amqp.Publishing
		want by
	}{
		"`delivery-mode`": {amqp.Publishing{DeliveryMode: amqp.Transient}, by{
			"tier": is(mode, amqp.Transient), "parked": is(mode, amqp.Persistent), "at once": is(mode, amqp.Transient),
		}},
		"`expiration`": {amqp.Publishing{Expiration: "60000"}, by{
			"tier":    all(is(expiration, ""), is(original, "60000"), is(restored, "60000")),
			"parked":  all(is(expiration, ""), in(wire.HeaderExpiration, "60000"), is(restored, "60000")),
			"at once": all(is(expiration, "60000"), in(wire.HeaderExpiration, nil), is(restored, "60000")),
		}},
		"`user-id`": {amqp.Publishing{UserId: user}, by{
			"tier": is(userID, user), "parked": all(is(userID, ""), in(wire.HeaderUserID, user)), "at once": is(userID, user),
		}},
		"`priority`": {amqp.Publishing{Priority: 4}, by{
			"tier": is(priority, byte(4)), "parked": all(is(priority, byte(0)), in(wire.HeaderPriority, byte(4))), "at once": is(priority, byte(4)),
		}},
		withoutID: {amqp.Publishing{}, by{
			"tier": is(messageID, false), "parked": is(messageID, true), "at once": is(messageID, false),
		}},
		"`x-death`, `x-first-death-*`, `x-last-death-*`, `x-delivery-count`": {amqp.Publishing{Headers: old}, by{
			"tier": is(oldDeath, major < 4), "parked": is(oldDeath, false), "at once": is(oldDeath, true),
		}},
		"`x-delaybridge-*` of the publisher's own": {amqp.Publishing{Headers: amqp.Table{"x-delaybridge-mine": "1", wire.HeaderUserID: "them"}}, by{
			"tier":    all(in("x-delaybridge-mine", "1"), in(wire.HeaderUserID, "them")),
			"parked":  all(in("x-delaybridge-mine", nil), in(wire.HeaderUserID, nil)),
			"at once": all(in("x-delaybridge-mine", "1"), in(wire.HeaderUserID, "them")),
		}},
		"`x-opt-delivery-time`, `x-opt-delivery-delay`": {amqp.Publishing{Headers: amqp.Table{wire.HeaderDeliveryTime: int64(1), wire.HeaderDeliveryDelay: int32(2)}}, by{
			"tier": all(in(wire.HeaderDeliveryTime, int64(1)), in(wire.HeaderDeliveryDelay, int32(2)), in(wire.HeaderAskedTime, nil)),
			"parked": all(
				in(wire.HeaderDeliveryTime, nil), in(wire.HeaderDeliveryDelay, nil),
				in(wire.HeaderAskedTime, int64(1)), in(wire.HeaderAskedDelay, int32(2)), is(asked, int64(1)),
			),
			"at once": all(in(wire.HeaderDeliveryTime, int64(1)), in(wire.HeaderDeliveryDelay, int32(2)), in(wire.HeaderAskedTime, nil)),
		}},
		"`CC` header": {amqp.Publishing{Headers: amqp.Table{"CC": []any{"carbon"}}}, by{
			"tier": in("CC", []any{"carbon"}), "parked": in("CC", []any{"carbon"}), "at once": in("CC", []any{"carbon"}),
		}},
		"`BCC` header": {amqp.Publishing{Headers: amqp.Table{"BCC": []any{"blind"}}}, by{
			"tier": in("BCC", nil), "parked": in("BCC", nil), "at once": in("BCC", nil),
		}},
		"wire type L in a header": {amqp.Publishing{Headers: amqp.Table{"n": wiretest.Long(7)}}, by{
			"tier": in("n", int64(7)), "parked": in("n", int64(7)), "at once": in("n", int64(7)),
		}},
	}
	var rows []string
	for row := range tested {
		rows = append(rows, row)
	}
	wiretest.SameRows(t, "../docs/wire-contract.md", "## What is different after the journey", rows)

	boxes := map[string]*mailbox{"everything": b.newMailbox(t, queueName)}
	for key, queue := range map[string]string{"carbon": "copies", "blind": "blind-copies"} {
		b.bindQueue(t, queue, key)
		boxes[queue] = b.newMailbox(t, queue)
	}
	conn, err := wiretest.Dial(b.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	keyOf := func(way, row string) string { // without an ID, it tells messages apart
		return "of." + way + "." + row[:min(len(row), 200)]
	}
	for row, c := range tested {
		for way, delay := range ways {
			p := c.Publishing
			if p.MessageId = keyOf(way, row); row == withoutID {
				p.MessageId = ""
			}
			headers := amqp.Table{"x-delay": delay}
			maps.Copy(headers, c.Headers)
			p.Headers = wiretest.Prepared(headers)
			if ok, err := publishOn(t, conn, b.topology.EntryExchange(), keyOf(way, row), p); !ok || err != nil {
				t.Fatalf("%s, %s: confirmed %v, %v", row, way, ok, err)
			}
		}
	}
	for row, c := range tested {
		for way, want := range c.want {
			got := boxes["everything"].awaitKey(t, keyOf(way, row))
			if err := want(&got.Delivery); err != nil {
				t.Errorf("%s, %s: %v; headers %v", row, way, err, got.Headers)
			}
		}
	}
	// A CC is honoured on every way, a BCC where the broker alone moves the message.
	for way := range ways {
		boxes["copies"].awaitKey(t, keyOf(way, "`CC` header"))
		if way != "parked" {
			boxes["blind-copies"].awaitKey(t, keyOf(way, "`BCC` header"))
		}
	}
	if n := len(boxes["blind-copies"].names()); n != 2 {
		t.Errorf("%d blind copies arrived, want those that met no bridge", n)
	}
}

// bindQueue declares a queue behind the ready exchange.
func (b *bench) bindQueue(t *testing.T, queue, key string) {
	t.Helper()
	ch := b.channel(t)
	if _, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	if err := ch.QueueBind(queue, key, b.topology.ReadyExchange(), false, nil); err != nil {
		t.Fatal(err)
	}
}

// awaitKey returns the first message with a routing key.
func (m *mailbox) awaitKey(t *testing.T, key string) letter {
	t.Helper()
	var found letter
	until(t, key+" arrives", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, list := range m.byID {
			for _, l := range list {
				if l.RoutingKey == key {
					found = l
					return true
				}
			}
		}
		return false
	})
	return found
}

// The one way to be early, which nobody can close: a foreign client's expiration that
// is shorter than the tier acts in the tier. Through the inbox it does not.
func TestExpirationShorterThanTheTier(t *testing.T) {
	t.Parallel()
	c := short()
	c.Tiers = append(c.Tiers, time.Hour)
	b := newBenchAt(t, c, servertest.ForTest(t))
	b.run(t, nil)
	box, conn := b.newMailbox(t, queueName), b.dial(t)
	send := func(id, expiration string, delay any) time.Time {
		began := time.Now()
		p := amqp.Publishing{MessageId: id, Expiration: expiration, Headers: amqp.Table{"x-delay": delay}}
		if ok, err := publishOn(t, conn, b.topology.EntryExchange(), "order.unpaid", p); !ok || err != nil {
			t.Fatalf("%s: confirmed %v, %v", id, ok, err)
		}
		return began
	}
	send("tier", "100", time.Hour.Milliseconds())
	early := box.await(t, "tier", 1)
	if queue, reason := deadIn(&early.Delivery); reason != "expired" {
		t.Errorf("left %s as %s", queue, reason) // an hour early, as the contract says
	}
	// Long enough for a bridge to take it in before that: in the inbox it counts, too.
	began := send("inbox", "10000", "11000")
	if got := box.await(t, "inbox", 1); got.at.Sub(began) < 11*time.Second {
		t.Errorf("arrived after %v, early", got.at.Sub(began))
	}
}

// Headers that fit the publisher's frame and would not fit ours go to quarantine as
// they are: with those that the bridge adds, the broker would end the connection.
func TestHeadersTooLargeGoToQuarantineAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	b.run(t, nil)
	var harmless []amqp.Publishing
	for i := range 20 {
		harmless = append(harmless, amqp.Publishing{MessageId: fmt.Sprint("harmless-", i), Headers: amqp.Table{"x-delay": int32(1234)}})
	}
	for _, size := range []int{wire.MaxHeaderBytes, 130_000, 131_000} { // RabbitMQ's frame_max is 131,072
		b.publishEntry(t, append(slices.Clip(harmless), amqp.Publishing{
			MessageId: fmt.Sprint("large-", size), Headers: amqp.Table{"x-delay": int32(1234), "large": strings.Repeat("x", size)}, Body: []byte("kept"),
		})...)
		ch := b.channel(t)
		until(t, "quarantine holds it", func() bool {
			q, err := ch.QueueDeclarePassive(b.topology.Quarantine(), true, false, false, false, nil)
			return err == nil && q.Messages == 1
		})
		if size < 130_500 { // what the broker adds leaves it readable
			d, _, err := ch.Get(b.topology.Quarantine(), true)
			if err != nil {
				t.Fatal(err)
			}
			if _, reason := deadIn(&d); string(d.Body) != "kept" || reason != "rejected" || d.Headers["large"] != strings.Repeat("x", size) {
				t.Errorf("in quarantine: body %q, reason %q, %d headers", d.Body, reason, len(d.Headers))
			}
		}
	}
	for _, p := range harmless {
		b.arrivals.awaitID(t, p.MessageId)
	}
}
