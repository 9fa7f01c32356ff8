package redisbridge_test

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	amqp10 "github.com/Azure/go-amqp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
)

// bare fails the test where a broker that knows x-opt-delivery-time would act on a message, or
// where what its publisher asked for is lost.
func bare(t *testing.T, where string, d *amqp.Delivery, at, delay any) {
	t.Helper()
	for _, name := range []string{wire.HeaderDeliveryTime, wire.HeaderDeliveryDelay} {
		if value, there := d.Headers[name]; there {
			t.Errorf("%s: has header %s: %v", where, name, value)
		}
	}
	if d.Headers[wire.HeaderAskedTime] != at || d.Headers[wire.HeaderAskedDelay] != delay {
		t.Errorf("%s: was asked for %v and %v; headers %v", where, at, delay, d.Headers)
	}
}

// A consumer that publishes again what it was delivered, headers and all, gets it at once: what
// was asked of the broker counts once. The same holds for a retry, and for the unrouted queue.
func TestWhatWasAskedOfTheBrokerIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, short(), servertest.ForTest(t))
	b.run(t, nil)
	inbox, conn := b.newMailbox(t, queueName), b.dial(t)
	publish := func(key, id string, headers amqp.Table) {
		t.Helper()
		p := amqp.Publishing{MessageId: id, Headers: headers, DeliveryMode: amqp.Persistent}
		if ok, err := publishOn(t, conn, b.topology.EntryExchange(), key, p); !ok || err != nil {
			t.Fatalf("%s: confirmed %v, %v", id, ok, err)
		}
	}
	due := time.Now().Add(900 * time.Millisecond).Truncate(time.Millisecond)
	for id, c := range map[string]struct {
		headers   amqp.Table
		at, delay any
	}{
		"instant": {amqp.Table{wire.HeaderDeliveryTime: due.UnixMilli()}, due.UnixMilli(), nil},
		"delay":   {amqp.Table{wire.HeaderDeliveryDelay: int64(900)}, nil, int64(900)},
	} {
		publish("order.unpaid", id, c.headers)
		first := inbox.await(t, id, 1)
		if early := due.Sub(first.at); early > 0 {
			t.Errorf("%s: %v early", id, early)
		}
		bare(t, id, &first.Delivery, c.at, c.delay)
		if got := b.topology.Message(&first.Delivery).Headers; got[wire.HeaderDeliveryTime] != c.at || got[wire.HeaderDeliveryDelay] != c.delay {
			t.Errorf("%s: the Go packages give back %v", id, got)
		}
		publish("order.unpaid", id, first.Headers)
		second := inbox.await(t, id, 2)
		bare(t, id+" again", &second.Delivery, c.at, c.delay)
		if path := pathOf(&second.Delivery); path != string(message.PathDirect) {
			t.Errorf("%s again: took path %q", id, path)
		}
	}
	returned := b.returning(t, "billing")
	m := message.Message{ID: "retry", RoutingKey: "order.unpaid", Headers: amqp.Table{wire.HeaderDeliveryTime: due.UnixMilli()}, Journey: message.Journey{Queue: "billing", Attempts: 1}}
	if err := b.park.Delay(t.Context(), &m, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	var d amqp.Delivery
	select {
	case d = <-returned:
	case <-time.After(patience):
		t.Fatal("the retry does not come back")
	}
	bare(t, "retry", &d, due.UnixMilli(), nil)

	if err := b.channel(t).QueueUnbind(queueName, "#", b.topology.ReadyExchange(), nil); err != nil {
		t.Fatal(err)
	}
	publish("order.unpaid", "unrouted", amqp.Table{wire.HeaderDeliveryTime: due.UnixMilli(), wire.HeaderDeliveryDelay: int64(1)})
	d = b.awaitIn(t, b.topology.Unrouted())
	bare(t, "unrouted", &d, due.UnixMilli(), int64(1))
}

// What a queue dead-letters into a tracked entry was delayed once: it comes back at once, and
// tells still what it was delayed by.
func TestDeadLetterIsNotDelayedByWhatWasAskedOfTheBroker(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, tracked(short()), servertest.ForTest(t))
	b.run(t, nil)
	b.deadLettering(t, nil, func(d *amqp.Delivery) error { return d.Reject(false) })
	inbox := b.newMailbox(t, queueName)
	b.publishEntry(t, amqp.Publishing{MessageId: "1", Headers: amqp.Table{wire.HeaderDeliveryDelay: int64(700)}})
	for round := 1; round <= 3; round++ {
		got := inbox.await(t, "1", round)
		bare(t, "round", &got.Delivery, nil, int64(700))
		if path := pathOf(&got.Delivery); (path == string(message.PathDirect)) != (round > 1) {
			t.Errorf("round %d: took path %q", round, path)
		}
	}
}

// An AMQP 1.0 client asks in message annotations, which RabbitMQ 4 shows as headers. Before that
// AMQP 1.0 was a plugin, which is not enabled here.
func TestWhatAnAMQP10ClientAsksFor(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, short(), servertest.ForTest(t))
	if major, _ := version(t, b.dial(t)); major < 4 {
		return
	}
	b.run(t, nil)
	inbox := b.newMailbox(t, queueName)
	uri, err := amqp.ParseURI(b.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := amqp10.Dial(t.Context(), fmt.Sprintf("amqp://%s:%d", uri.Host, uri.Port), &amqp10.ConnOptions{
		HostName: "vhost:" + uri.Vhost, SASLType: amqp10.SASLTypePlain(uri.Username, uri.Password),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	session, err := conn.NewSession(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	sender, err := session.NewSender(t.Context(), "/exchanges/"+url.PathEscape(b.topology.EntryExchange())+"/order.unpaid", nil)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(2 * time.Second)
	whole := at.Truncate(time.Second) // as AMQP 0-9-1 has a timestamp
	asked := map[string]struct {
		name  string
		value any
		at    time.Time // zero for a second from when it is sent
	}{
		"instant":   {wire.HeaderDeliveryTime, at.UnixMilli(), at.Truncate(time.Millisecond)},
		"timestamp": {wire.HeaderDeliveryTime, at, whole},
		"delay":     {wire.HeaderDeliveryDelay, int64(1234), time.Time{}},
		"uint":      {wire.HeaderDeliveryDelay, uint32(1234), time.Time{}},
		"ours":      {wire.HeaderDelay, int64(1234), time.Time{}},
		"a tier":    {wire.HeaderDelay, int64(1000), time.Time{}},
	}
	due := map[string]time.Time{}
	for id, c := range asked {
		if due[id] = c.at; c.at.IsZero() {
			due[id] = time.Now().Add(time.Second).Truncate(time.Millisecond)
		}
		err := sender.Send(t.Context(), &amqp10.Message{
			Properties:  &amqp10.MessageProperties{MessageID: id},
			Annotations: amqp10.Annotations{c.name: c.value},
			Data:        [][]byte{[]byte(id)},
		}, nil)
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
	}
	for id := range asked {
		got := inbox.await(t, id, 1)
		if early := due[id].Sub(got.at); early > 0 {
			t.Errorf("%s: %v early; headers %v", id, early, got.Headers)
		}
		for _, name := range []string{wire.HeaderDeliveryTime, wire.HeaderDeliveryDelay} {
			if value, there := got.Headers[name]; there {
				t.Errorf("%s: arrives with header %s: %v", id, name, value)
			}
		}
	}
}
