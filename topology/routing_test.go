package topology_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/topology"
)

func TestEntryRoutesByDelay(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.apply(t)
	tier, inbox, unrouted := b.Tiers()[1].Name, b.Inbox(), b.Unrouted()
	// A message has to reach one queue, and stay there to be counted: hence 30 s.
	for i, test := range []struct {
		name    string
		headers amqp.Table
		want    string
	}{
		{"equal to a tier as int64", amqp.Table{"x-delay": int64(30000)}, tier},
		{"equal to a tier as int32", amqp.Table{"x-delay": int32(30000)}, tier},
		{"equal to a tier as int16", amqp.Table{"x-delay": int16(30000)}, tier},
		{"equal to a tier among other headers", amqp.Table{"a": "1", "x-a": "2", "x-delay": int64(30000), "z": "3"}, tier},
		{"between two tiers", amqp.Table{"x-delay": int64(7300)}, inbox},
		{"one more than a tier", amqp.Table{"x-delay": int64(30001)}, inbox},
		{"above all tiers", amqp.Table{"x-delay": int64(1 << 40)}, inbox},
		{"negative", amqp.Table{"x-delay": int64(-1)}, inbox},
		{"absent", nil, inbox},
		{"an instant instead", amqp.Table{"x-deliver-at": int64(1893456000000)}, inbox},
		{"equal to a tier, but as text", amqp.Table{"x-delay": "30000"}, inbox},
		{"zero as text", amqp.Table{"x-delay": "0"}, inbox},
		{"in the header's other spelling", amqp.Table{"X-Delay": int64(30000)}, inbox},
		{"zero, with nobody bound", amqp.Table{"x-delay": int32(0)}, unrouted},
	} {
		id := strconv.Itoa(i)
		b.publish(t, b.EntryExchange(), "order.created", amqp.Publishing{MessageId: id, Headers: test.headers})
		if got := b.await(t, test.want); got.MessageId != id {
			t.Errorf("%s: %s holds message %s, want %s", test.name, test.want, got.MessageId, id)
		}
		for _, q := range b.Queues() {
			if n := b.ready(t, q.Name); n != 0 {
				t.Errorf("%s: %d more messages in %s", test.name, n, q.Name)
			}
		}
	}
}

// ready counts a queue's ready messages.
func (b *bench) ready(t testing.TB, queue string) int {
	t.Helper()
	q, err := b.channel(t).QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return q.Messages
}

// orders declares a queue for order.* behind the ready exchange.
func (b *bench) orders(t testing.TB) string {
	t.Helper()
	ch := b.channel(t)
	if _, err := ch.QueueDeclare("orders", true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	if err := ch.QueueBind("orders", "order.*", b.ReadyExchange(), false, nil); err != nil {
		t.Fatal(err)
	}
	return "orders"
}

func TestReadyRoutesByTheOriginalKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.apply(t)
	orders := b.orders(t)
	for _, entrance := range []struct {
		exchange string
		headers  amqp.Table
	}{
		{b.EntryExchange(), amqp.Table{"x-delay": int32(0)}},
		{b.EntryExchange(), amqp.Table{"x-delay": int32(1000)}},
		{b.Tiers()[0].Name, nil},
		{b.lane(), nil},
	} {
		what := fmt.Sprintf("%s with %v", entrance.exchange, entrance.headers)
		for key, queue := range map[string]string{"order.created": orders, "invoice.created": b.Unrouted()} {
			b.publish(t, entrance.exchange, key, amqp.Publishing{Headers: entrance.headers})
			if got := b.await(t, queue); got.RoutingKey != key {
				t.Errorf("%s: routing key %s, want %s", what, got.RoutingKey, key)
			}
		}
	}
}

// A lane ends a message's wait after what is left of it, not after its own TTL.
func TestALaneHonoursTheRestOfTheDelay(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const ttl = 5 * time.Minute // longer than a slow machine takes
	b.Topology = describe(t, topology.Config{Prefix: b.env.Prefix, Tiers: []time.Duration{ttl}, Lead: ttl, Shards: 1})
	b.apply(t)
	orders := b.orders(t)
	for _, rest := range []time.Duration{0, 300 * time.Millisecond} {
		sent := time.Now()
		b.publish(t, b.Lane(ttl, 0), "order.created", amqp.Publishing{Expiration: strconv.FormatInt(rest.Milliseconds(), 10)})
		b.await(t, orders)
		if waited := time.Since(sent); waited < rest || waited >= ttl {
			t.Errorf("waited %v, want %v", waited, rest)
		}
	}
}

func TestATierIsNeverEarlyAndChangesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.apply(t)
	deliveries, err := b.channel(t).Consume(b.orders(t), "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	headers := amqp.Table{"x-delay": int32(1000), "tenant": "acme", "x-nested": amqp.Table{"n": int64(1)}, "list": []any{"a", int32(2)}}
	due := map[string]int64{} // Unix ms
	for i := range 50 {
		id := strconv.Itoa(i)
		due[id] = time.Now().UnixMilli() + 1000
		b.publish(t, b.EntryExchange(), "order.created", amqp.Publishing{
			MessageId: id, Headers: headers, Body: []byte("order " + id), ContentType: "text/plain", CorrelationId: "c-" + id,
		})
	}
	var lateness []int64
	timeout := time.After(stateTimeout)
	for len(due) > 0 {
		select {
		case d := <-deliveries:
			at := time.Now().UnixMilli()
			planned, ok := due[d.MessageId]
			if !ok {
				t.Fatalf("message %s came twice", d.MessageId)
			}
			delete(due, d.MessageId)
			lateness = append(lateness, at-planned)
			if d.RoutingKey != "order.created" || string(d.Body) != "order "+d.MessageId ||
				d.ContentType != "text/plain" || d.CorrelationId != "c-"+d.MessageId || d.DeliveryMode != amqp.Persistent {
				t.Errorf("message %s has changed: %+v", d.MessageId, d)
			}
			for name, value := range headers {
				if fmt.Sprint(d.Headers[name]) != fmt.Sprint(value) {
					t.Errorf("header %s: %v, want %v", name, d.Headers[name], value)
				}
			}
		case <-timeout:
			t.Fatalf("%d messages have not come", len(due))
		}
	}
	slices.Sort(lateness)
	if lateness[0] < 0 {
		t.Errorf("early by %d ms", -lateness[0])
	}
	t.Logf("lateness in ms: p50 %d, max %d", lateness[len(lateness)/2], lateness[len(lateness)-1])
}

func TestInboxGivesUpIntoQuarantine(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.apply(t)
	b.publish(t, b.EntryExchange(), "order.created", amqp.Publishing{MessageId: "poison"})
	ch := b.channel(t)
	deliveries, err := ch.Consume(b.Inbox(), "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	rejected := make(chan int)
	go func() {
		n := 0
		for d := range deliveries {
			n++
			_ = d.Reject(true) // fails only with the channel, which ends the loop
		}
		rejected <- n
	}()
	got := b.await(t, b.Quarantine())
	if err := ch.Close(); err != nil {
		t.Fatal(err)
	}
	if n := <-rejected; got.MessageId != "poison" || n != 21 {
		t.Errorf("message %q after %d deliveries, want poison after 21", got.MessageId, n)
	}
	if _, ok := got.Headers["x-death"]; !ok {
		t.Errorf("no x-death in %v", slices.Sorted(maps.Keys(got.Headers)))
	}
}
