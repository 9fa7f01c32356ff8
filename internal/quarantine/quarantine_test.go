package quarantine_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/quarantine"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/topology"
)

const patience = time.Minute

// ward is one test's corner of a broker, with the topology in it and an empty
// quarantine.
type ward struct {
	*quarantine.Quarantine
	t        *testing.T
	env      servertest.Env
	topology *topology.Topology
	ch       *amqp.Channel
}

func newWard(t *testing.T) *ward {
	t.Helper()
	env := servertest.ForTest(t)
	top, err := topology.New(topology.Config{
		Prefix: env.Prefix, Tiers: []time.Duration{time.Second}, Lead: time.Second, Shards: 1,
		Entries: []topology.Entry{{Name: "orders", Kind: amqp.ExchangeFanout}},
	})
	if err != nil {
		t.Fatal(err)
	}
	q, err := quarantine.New(quarantine.Config{URL: env.AMQPURL, Topology: top, GiveUpAfter: patience})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := amqp.Dial(env.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := top.Apply(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &ward{q, t, env, top, ch}
}

// queue declares a queue that gets what is bound by key from the ready exchange.
func (w *ward) queue(name, key string) {
	w.t.Helper()
	_, err := w.ch.QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
	if err == nil {
		err = w.ch.QueueBind(name, key, w.topology.ReadyExchange(), false, nil)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *ward) publish(exchange, key string, p amqp.Publishing) {
	w.t.Helper()
	confirmed, err := w.ch.PublishWithDeferredConfirm(exchange, key, false, false, p)
	if err != nil || !confirmed.Wait() {
		w.t.Fatalf("publish: %v", err)
	}
}

// What a consumer that asks Redis tells a message by; without it, it would drop the
// message as one with an old due time.
var published = time.UnixMilli(1_800_000_000_123).UTC() //nolint:gochecknoglobals // a constant

func known(j message.Journey) bool { return j.Published.Equal(published) && j.Version == 2 }

// quarantined are n messages that a consumer of queue has given up, m-0 and on.
func (w *ward) quarantined(n int, queue string) {
	w.t.Helper()
	confirms := make([]*amqp.DeferredConfirmation, n)
	for i := range n {
		m := message.Message{ID: fmt.Sprintf("m-%d", i), RoutingKey: "order.unpaid", Body: []byte("body")}
		m.Journey.Published, m.Journey.Version = published, 2
		m.Journey.Failed(queue, time.Now(), errors.New("failed"))
		p := m.Publishing(m.Journey)
		p.Headers[wire.HeaderError] = "failed"
		p.Headers[wire.HeaderQuarantined] = time.Now().UTC().Format(time.RFC3339)
		var err error
		if confirms[i], err = w.ch.PublishWithDeferredConfirm(w.topology.Quarantine(), m.RoutingKey, false, false, p); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, c := range confirms {
		if !c.Wait() {
			w.t.Fatal("refused")
		}
	}
}

// look returns the IDs of what there is.
func (w *ward) look(f quarantine.Filter, limit int) (ids []string) {
	w.t.Helper()
	err := w.Look(w.t.Context(), f, limit, func(m *quarantine.Message) error {
		ids = append(ids, m.ID)
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return ids
}

// replay returns what became of each message.
func (w *ward) replay(f quarantine.Filter, to quarantine.Target) map[string]quarantine.Replayed {
	w.t.Helper()
	all := map[string]quarantine.Replayed{}
	err := w.Replay(w.t.Context(), f, quarantine.Replaying{To: to}, func(r quarantine.Replayed) error {
		all[r.ID] = r
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// drain takes n messages from a queue.
func (w *ward) drain(queue string, n int) []amqp.Delivery {
	w.t.Helper()
	conn, err := amqp.Dial(w.env.AMQPURL)
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		w.t.Fatal(err)
	}
	deliveries, err := ch.Consume(queue, "", true, false, false, false, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	all := make([]amqp.Delivery, n)
	for i := range all {
		select {
		case all[i] = <-deliveries:
		case <-time.After(patience):
			w.t.Fatalf("%s has only %d messages, want %d", queue, i, n)
		}
	}
	return all
}

// wantHeld waits until queue holds n messages that nobody has taken.
func (w *ward) wantHeld(queue string, n int) {
	w.t.Helper()
	deadline := time.After(patience)
	for {
		q, err := w.ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		if err != nil {
			w.t.Fatal(err)
		}
		if q.Messages == n {
			return
		}
		select {
		case <-deadline:
			w.t.Fatalf("%s holds %d messages, want %d", queue, q.Messages, n)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// More than a consumer may hold at a time.
func TestLookLeavesEverythingWhereItWas(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	if got := w.look(quarantine.Filter{}, 0); len(got) != 0 {
		t.Errorf("saw %v in an empty quarantine", got)
	}
	const n = 1700
	w.quarantined(n, "billing")
	for range 2 {
		got := w.look(quarantine.Filter{}, 0)
		if len(got) != n {
			t.Fatalf("saw %d, want %d", len(got), n)
		}
		for i, id := range got {
			if want := fmt.Sprintf("m-%d", i); id != want {
				t.Fatalf("number %d is %s, want %s", i, id, want)
			}
		}
		w.wantHeld(w.topology.Quarantine(), n)
	}
	if got := w.look(quarantine.Filter{IDPrefix: "m-169"}, 0); len(got) != 11 {
		t.Errorf("saw %v, want 11", got)
	}
	if got := w.look(quarantine.Filter{}, 3); !slices.Equal(got, []string{"m-0", "m-1", "m-2"}) {
		t.Errorf("saw %v, want the first three", got)
	}
	w.wantHeld(w.topology.Quarantine(), n)
}

// What a consumer gives up says why; of what the broker has dead-lettered its x-death
// does.
func TestWhatIsKnownOfAMessage(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.publish(w.topology.Inbox(), "any", amqp.Publishing{}) // so that there is something to reject
	d, ok, err := w.ch.Get(w.topology.Inbox(), false)
	if err != nil || !ok || d.Reject(false) != nil {
		t.Fatalf("nothing to reject: %v", err)
	}
	w.wantHeld(w.topology.Quarantine(), 1)
	if err := w.Look(t.Context(), quarantine.Filter{}, 0, func(m *quarantine.Message) error {
		if m.Error != "dead-lettered by the broker from queue "+w.topology.Inbox()+": rejected" || m.Journey.Queue != "" || time.Since(m.Since) > patience {
			t.Errorf("got %+v", m)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	w.drain(w.topology.Quarantine(), 1)

	c, err := consumer.New(consumer.Config{
		AMQPURL: w.env.AMQPURL, Topology: w.topology, Queue: "billing", Bind: []string{"#"},
		Handler: consumer.HandlerFunc(func(context.Context, message.Message) error { panic("oh no") }),
		Retry:   consumer.Retry{Base: time.Millisecond, Attempts: 3},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	<-c.Ready()
	w.publish(w.topology.ReadyExchange(), "order.unpaid", amqp.Publishing{MessageId: "o-1", Body: []byte("b"), Headers: amqp.Table{"n": int64(1)}})
	w.wantHeld(w.topology.Quarantine(), 1)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := w.Look(t.Context(), quarantine.Filter{Queue: "billing"}, 0, func(m *quarantine.Message) error {
		j := m.Journey
		if m.ID != "o-1" || m.RoutingKey != "order.unpaid" || string(m.Body) != "b" || m.Headers["n"] != int64(1) || len(m.Headers) != 1 {
			t.Errorf("got %+v", m)
		}
		if m.Error != "the handler panicked: oh no" || !strings.Contains(m.Stack, "goroutine") || time.Since(m.Since) > patience {
			t.Errorf("got %+v", m)
		}
		if j.Queue != "billing" || j.Attempts != 3 || len(j.History) != 3 {
			t.Errorf("journey %+v", j)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestReplayToItsQueue(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.queue("billing", "#")
	w.queue("shipping", "#") // gets none of it
	const n = 1300
	w.quarantined(n, "billing")
	for id, r := range w.replay(quarantine.Filter{}, quarantine.ToQueue) {
		if r.Err != nil || r.To != "billing" {
			t.Fatalf("%s: to %s, %v", id, r.To, r.Err)
		}
	}
	w.wantHeld(w.topology.Quarantine(), 0)
	w.wantHeld("shipping", 0)
	w.wantHeld(w.topology.Unrouted(), 0)
	seen := map[string]bool{}
	for _, d := range w.drain("billing", n) {
		m := w.topology.Message(&d)
		seen[m.ID] = true
		if j := m.Journey; m.RoutingKey != "order.unpaid" || j.Attempts != 0 || j.Queue != "billing" || j.Path != wire.ReplayPath || len(j.History) != 2 || !known(j) {
			t.Fatalf("got %+v", m)
		}
		for name := range d.Headers {
			if name == wire.HeaderError || name == wire.HeaderQuarantined {
				t.Fatalf("still says %s", name)
			}
		}
	}
	if len(seen) != n {
		t.Errorf("%d different messages, want %d", len(seen), n)
	}
	w.wantHeld("billing", 0)
}

// A command that nobody could read was mended by hand, or its reader was: it is carried out then.
func TestReplayOfACommand(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	m := message.Message{ID: "command", RoutingKey: "k", Type: "cancel", ReplyTo: "answers", Body: []byte(`{"ids": ["o-1"]}`)}
	w.publish(w.topology.Quarantine(), m.RoutingKey, m.Publishing(message.Journey{Path: wire.QuarantinePath, Queue: w.topology.Command()}))
	// What the broker has dead-lettered, as the queue is set up to, comes raw.
	w.publish(w.topology.Quarantine(), m.RoutingKey, amqp.Publishing{MessageId: "raw", Type: "get", Headers: amqp.Table{
		"x-death": []any{amqp.Table{"queue": w.topology.Command(), "reason": "delivery_limit", "count": int64(1), "exchange": w.topology.Command()}},
	}})
	if got := w.replay(quarantine.Filter{}, quarantine.ToQueue); len(got) != 2 || got["command"].To != w.topology.Command() || got["raw"].To != w.topology.Command() {
		t.Errorf("got %+v", got)
	}
	for _, d := range w.drain(w.topology.Command(), 2) {
		if d.MessageId == "command" && (d.Type != m.Type || d.ReplyTo != m.ReplyTo || string(d.Body) != string(m.Body)) {
			t.Errorf("got %+v", d)
		}
	}
}

func TestReplayToTheReadyExchange(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.queue("billing", "order.*")
	w.queue("shipping", "order.*")
	w.quarantined(2, "billing")
	// From no queue: what the intake could not read. And of an entry.
	m := message.Message{ID: "no queue", RoutingKey: "order.unpaid", Headers: amqp.Table{"x-delay": "soon"}}
	w.publish(w.topology.Quarantine(), m.RoutingKey, m.Publishing(message.Journey{Path: wire.QuarantinePath}))
	m.Entry, m.ID = "orders", "entry"
	w.publish(w.topology.Quarantine(), m.RoutingKey, m.Publishing(message.Journey{Path: wire.QuarantinePath}))
	_, err := w.ch.QueueDeclare("orders", true, false, false, false, nil)
	if err == nil {
		err = w.ch.QueueBind("orders", "", w.topology.ReadyExchangeOf("orders"), false, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	got := w.replay(quarantine.Filter{IDs: []string{"no queue", "entry"}}, quarantine.ToQueue)
	if len(got) != 2 || got["no queue"].To != w.topology.ReadyExchange() || got["entry"].To != w.topology.ReadyExchangeOf("orders") {
		t.Errorf("got %+v", got)
	}
	w.wantHeld(w.topology.Quarantine(), 2)
	if got := w.replay(quarantine.Filter{}, quarantine.ToReady); len(got) != 2 {
		t.Errorf("got %+v", got)
	}
	w.wantHeld(w.topology.Quarantine(), 0)
	w.drain("billing", 3)
	d := w.drain("shipping", 3)[2]
	if m := w.topology.Message(&d); m.Journey.Queue != "" || m.Journey.Attempts != 0 || m.Journey.Path != wire.ReplayPath || !known(m.Journey) {
		t.Errorf("got %+v", m)
	}
	w.drain("orders", 1)
}

// A message that has expired in the inbox while no bridge was there is not due yet: it
// begins anew, without the expiration, in the entry that it came through.
func TestReplayOfWhatExpiredInTheInbox(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	for _, entry := range []string{"", "orders"} {
		w.publish(w.topology.EntryExchangeOf(entry), "order.unpaid", amqp.Publishing{
			MessageId: "in " + entry, Expiration: "1", Headers: amqp.Table{"x-delay": int32(3_600_001)},
		})
	}
	w.wantHeld(w.topology.Quarantine(), 2)
	got := w.replay(quarantine.Filter{}, quarantine.ToQueue)
	for _, entry := range []string{"", "orders"} {
		if to := w.topology.EntryExchangeOf(entry); got["in "+entry].To != to {
			t.Errorf("entry %q: got %+v, want it in %s", entry, got["in "+entry], to)
		}
	}
	for _, d := range w.drain(w.topology.Inbox(), 2) {
		m := w.topology.Message(&d)
		if d.Expiration != "" || m.Expiration != "1" || d.Headers["x-delay"] != int32(3_600_001) || d.RoutingKey != "order.unpaid" {
			t.Errorf("got %+v", d)
		}
	}
	w.wantHeld(w.topology.Quarantine(), 0)
}

// The same of one that asked for its delay in the names of RabbitMQ's own delays: it asks again,
// under our names, and no broker acts on the others.
func TestReplayAsksAgainForADelayOfTheBrokers(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	at := time.Now().Add(time.Hour).UnixMilli()
	for id, headers := range map[string]amqp.Table{
		"instant": {wire.HeaderDeliveryTime: at, wire.HeaderDeliveryDelay: int32(7)},
		"delay":   {wire.HeaderDeliveryDelay: int32(3_600_001)},
		"both":    {wire.HeaderDeliveryTime: int64(1), wire.HeaderDeliverAt: at},
	} {
		w.publish(w.topology.EntryExchange(), "order.unpaid", amqp.Publishing{MessageId: id, Expiration: "1", Headers: headers})
	}
	w.wantHeld(w.topology.Quarantine(), 3)
	w.replay(quarantine.Filter{}, quarantine.ToQueue)
	for _, d := range w.drain(w.topology.Inbox(), 3) {
		when, err := message.WhenFromHeaders(d.Headers, time.Now())
		want := message.At(time.UnixMilli(at))
		if d.MessageId == "delay" {
			want = message.After(3_600_001 * time.Millisecond)
		}
		if err != nil || when != want {
			t.Errorf("%s: asks for %+v (%v), want %+v", d.MessageId, when, err, want)
		}
		for _, name := range []string{wire.HeaderDeliveryTime, wire.HeaderDeliveryDelay} {
			if value, there := d.Headers[name]; there {
				t.Errorf("%s: has header %s: %v", d.MessageId, name, value)
			}
		}
	}
}

// What cannot go anywhere stays, and holds nothing else up.
func TestReplayLeavesWhatItCannotSend(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.queue("billing", "#")
	w.quarantined(3, "gone")
	w.quarantined(2, "billing")
	w.publish(w.topology.Quarantine(), "raw", amqp.Publishing{
		MessageId: "raw", Body: []byte{1}, Headers: amqp.Table{wire.HeaderError: wire.ErrEnvelope.Error(), wire.HeaderPath: wire.QuarantinePath},
	})
	m := message.Message{ID: "entry", RoutingKey: "k", Entry: "deleted"}
	w.publish(w.topology.Quarantine(), m.RoutingKey, m.Publishing(message.Journey{Path: wire.QuarantinePath}))
	failed := map[string]error{}
	n := 0
	if err := w.Replay(t.Context(), quarantine.Filter{}, quarantine.Replaying{}, func(r quarantine.Replayed) error {
		n++
		if r.Err != nil {
			failed[r.ID+" "+r.To] = r.Err
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if n != 7 || len(failed) != 5 || !errors.Is(failed["m-1 gone"], quarantine.ErrNoQueue) || !errors.Is(failed["raw "+w.topology.ReadyExchange()], quarantine.ErrNoMessage) ||
		failed["entry "+w.topology.ReadyExchangeOf("deleted")] == nil {
		t.Errorf("%d of %d failed: %v", len(failed), n, failed)
	}
	w.wantHeld(w.topology.Quarantine(), 5)
	w.wantHeld("billing", 2)
}

func TestPurgeRemovesWhatItHasShown(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.quarantined(1200, "billing")
	var shown []string
	full := errors.New("the disk is full")
	purge := func(f quarantine.Filter, limit, most int) error {
		shown = nil
		return w.Purge(t.Context(), f, limit, func(m *quarantine.Message) error {
			if len(shown) == most {
				return full
			}
			shown = append(shown, m.ID)
			return nil
		})
	}
	if err := purge(quarantine.Filter{IDPrefix: "m-11"}, 0, -1); err != nil || len(shown) != 111 {
		t.Errorf("%d removed (%v), want 111", len(shown), err)
	}
	w.wantHeld(w.topology.Quarantine(), 1089)
	if err := purge(quarantine.Filter{}, 9, -1); err != nil || len(shown) != 9 {
		t.Errorf("%d removed (%v), want 9", len(shown), err)
	}
	w.wantHeld(w.topology.Quarantine(), 1080)
	if err := purge(quarantine.Filter{}, 0, 80); !errors.Is(err, full) {
		t.Errorf("got %v, want what show says", err)
	}
	w.wantHeld(w.topology.Quarantine(), 1000)
	if err := purge(quarantine.Filter{}, 0, -1); err != nil || len(shown) != 1000 {
		t.Errorf("%d removed (%v), want 1000", len(shown), err)
	}
	w.wantHeld(w.topology.Quarantine(), 0)
}

func TestInterruptedAnywhereNothingIsLost(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.queue("billing", "#")
	const n = 1500
	w.quarantined(n, "billing")
	ctx, interrupt := context.WithCancel(t.Context())
	replayed := 0
	err := w.Replay(ctx, quarantine.Filter{}, quarantine.Replaying{}, func(r quarantine.Replayed) error {
		if replayed++; replayed == 100 {
			interrupt()
		}
		return r.Err
	})
	if !errors.Is(err, context.Canceled) || replayed < 100 || replayed == n {
		t.Fatalf("%d replayed, %v", replayed, err)
	}
	w.wantHeld(w.topology.Quarantine(), n-replayed)
	w.wantHeld("billing", replayed) // what was on its way has arrived, and nothing twice
}

// Of a message whose headers cannot all be decoded the others are shown, and nothing behind it waits. It is
// replayed only if it may lose some.
func TestAMessageOfWhichNotAllCanBeRead(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.queue("billing", "#")
	w.publish(w.topology.EntryExchange(), "k", amqp.Publishing{MessageId: "long", Body: []byte("kept"), Headers: amqp.Table{
		"list": make([]any, 8193), "mine": "kept", wire.HeaderQueue: "payroll", "x-delay": int64(1500),
	}})
	w.wantHeld(w.topology.Inbox(), 1)
	b, err := broker.New(broker.Config{URL: w.env.AMQPURL, Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	ch, err := b.Channel(ctx)
	if err != nil {
		t.Fatal(err)
	}
	d, ok, err := ch.Get(w.topology.Inbox(), false)
	if err != nil || !ok || broker.Undecodable(&d) == "" || d.Reject(false) != nil {
		t.Fatalf("got %+v (%v)", d, err)
	}
	w.quarantined(1, "billing")
	w.wantHeld(w.topology.Quarantine(), 2)
	seen := map[string]*quarantine.Message{}
	if err := w.Look(t.Context(), quarantine.Filter{}, 0, func(m *quarantine.Message) error {
		seen[m.ID] = m
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	m := seen["long"]
	if m == nil || seen["m-0"] == nil {
		t.Fatalf("saw %v", seen)
	}
	if !strings.Contains(m.Error, "rejected; its headers cannot be decoded: a table or array in them has more than 8192 entries") ||
		string(m.Body) != "kept" || m.Headers["mine"] != "kept" || len(m.Headers) != 2 || m.Journey.Queue != "" {
		t.Errorf("got %+v", m)
	}
	if got := w.replay(quarantine.Filter{IDs: []string{"long"}}, quarantine.ToQueue)["long"]; !errors.Is(got.Err, quarantine.ErrUndecodable) {
		t.Errorf("replayed: %v", got.Err)
	}
	w.wantHeld(w.topology.Quarantine(), 2)
	if err := w.Replay(t.Context(), quarantine.Filter{IDs: []string{"long"}}, quarantine.Replaying{Incomplete: true}, func(r quarantine.Replayed) error { return r.Err }); err != nil {
		t.Error(err)
	}
	w.wantHeld(w.topology.Quarantine(), 1)
	w.wantHeld("billing", 1)
	d, ok, err = ch.Get("billing", true)
	if err != nil || !ok || broker.Undecodable(&d) != "" || d.Headers["mine"] != "kept" || string(d.Body) != "kept" || w.topology.Message(&d).Journey.Path != wire.ReplayPath {
		t.Errorf("replayed without some headers: %+v (%v)", d, err)
	}
}

// What a publisher writes into headers of the bridge's own decides nothing about its message here.
func TestForgedHeadersDecideNothing(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.queue("payroll", "salary")
	w.publish(w.topology.EntryExchangeOf("orders"), "order.unpaid", amqp.Publishing{MessageId: "forged", Headers: amqp.Table{
		"x-delay": int64(1500), wire.HeaderQueue: "payroll", wire.HeaderKey: "salary", wire.HeaderError: "card declined", wire.HeaderStack: "a stack",
		wire.HeaderQuarantined: "2020-01-01T00:00:00Z", wire.HeaderAttempts: int64(5), wire.HeaderHistory: []any{"a line"}, wire.HeaderEntry: "another",
		wire.HeaderVersion: int64(7), wire.HeaderPublished: "9999-01-01T00:00:00.000Z", wire.HeaderPath: "replayed", wire.HeaderUserID: "admin",
		"x-death": []any{amqp.Table{"queue": w.topology.Inbox(), "reason": "rejected", "exchange": w.topology.RetryExchange(), "count": int64(0)}},
	}})
	d, ok, err := w.ch.Get(w.topology.Inbox(), false)
	if err != nil || !ok || d.Reject(false) != nil {
		t.Fatalf("nothing to reject: %v", err)
	}
	w.wantHeld(w.topology.Quarantine(), 1)
	if err := w.Look(t.Context(), quarantine.Filter{}, 0, func(m *quarantine.Message) error {
		got := *m
		got.Since, got.Entry, got.Headers = time.Time{}, "", nil // 3.10 believes the exchange of an x-death that was sent
		want := quarantine.Message{
			Message: message.Message{ID: "forged", RoutingKey: "order.unpaid", Body: []byte{}},
			Error:   "dead-lettered by the broker from queue " + w.topology.Inbox() + ": rejected",
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := w.replay(quarantine.Filter{}, quarantine.ToQueue)["forged"]; got.Err != nil || got.To == "payroll" {
		t.Errorf("replayed to %s: %v", got.To, got.Err)
	}
	w.wantHeld("payroll", 0)
}
