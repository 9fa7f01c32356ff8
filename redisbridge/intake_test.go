package redisbridge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
)

// publishEntry publishes as a foreign client does, and waits for the confirms.
func (b *bench) publishEntry(t *testing.T, all ...amqp.Publishing) {
	t.Helper()
	b.publishTo(t, b.topology.EntryExchange(), all...)
}

func (b *bench) publishTo(t *testing.T, exchange string, all ...amqp.Publishing) {
	t.Helper()
	ch, err := b.dial(t).Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	confirms := make([]*amqp.DeferredConfirmation, len(all))
	for i, p := range all {
		p.DeliveryMode = amqp.Persistent
		if confirms[i], err = ch.PublishWithDeferredConfirmWithContext(t.Context(), exchange, "order.unpaid", false, false, p); err != nil {
			t.Fatal(err)
		}
	}
	for _, confirm := range confirms {
		if ok, err := confirm.WaitContext(t.Context()); !ok || err != nil {
			t.Fatalf("not confirmed: %v, %v", ok, err)
		}
	}
}

func TestForeignClientsSayWhen(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	b.run(t, nil)
	began := time.Now()
	for id, tc := range map[string]struct {
		headers amqp.Table
		after   time.Duration
	}{
		"exact tier":           {amqp.Table{"x-delay": int32(1000)}, time.Second},
		"between tiers":        {amqp.Table{"x-delay": int16(1234)}, 1234 * time.Millisecond},
		"longer than the lead": {amqp.Table{"x-delay": int64(2700)}, 2700 * time.Millisecond},
		"a string":             {amqp.Table{"x-delay": "1000"}, time.Second},
		"a float":              {amqp.Table{"x-delay": 1500.9}, 1500 * time.Millisecond},
		"an instant":           {amqp.Table{"x-deliver-at": began.Add(1700 * time.Millisecond).UnixMilli()}, 1699 * time.Millisecond},
		"zero":                 {amqp.Table{"x-delay": int8(0)}, 0},
		"negative":             {amqp.Table{"x-delay": int32(-5)}, 0},
		"no header":            {nil, 0},
	} {
		t.Run(id, func(t *testing.T) {
			began := time.Now()
			b.publishEntry(t, amqp.Publishing{MessageId: id, Headers: tc.headers, Body: []byte(id)})
			published := time.Now()
			t.Cleanup(func() {
				got := b.arrivals.awaitID(t, id)
				if early := began.Add(tc.after).Sub(got.at); early > 0 && id != "an instant" {
					t.Errorf("%v early", early)
				}
				if id == "an instant" && got.at.Before(time.UnixMilli(tc.headers["x-deliver-at"].(int64))) {
					t.Error("early")
				}
				if late := got.at.Sub(published) - tc.after; late > 20*time.Second {
					t.Errorf("%v late", late)
				}
				if string(got.Body) != id || got.RoutingKey != "order.unpaid" {
					t.Errorf("got body %q, routing key %q", got.Body, got.RoutingKey)
				}
			})
		})
	}
}

// awaitID returns the first arrival of one message.
func (a *arrivals) awaitID(t *testing.T, id string) arrival {
	t.Helper()
	deadline := time.After(patience)
	for {
		a.mu.Lock()
		list := a.byID[id]
		a.mu.Unlock()
		if len(list) > 0 {
			return list[0]
		}
		select {
		case <-a.changed:
		case <-time.After(50 * time.Millisecond): // somebody else may have taken the mark
		case <-deadline:
			t.Fatalf("%s did not arrive within %v", id, patience)
		}
	}
}

func TestUselessDelayGoesToQuarantine(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	b.run(t, nil)
	b.publishEntry(t, amqp.Publishing{MessageId: "odd", Headers: amqp.Table{"x-delay": "tomorrow", "mine": int8(1)}, Body: []byte("kept")})
	d := b.awaitIn(t, b.topology.Quarantine())
	if string(d.Body) != "kept" || d.Headers["mine"] != int8(1) || d.RoutingKey != "order.unpaid" ||
		!strings.Contains(fmt.Sprint(d.Headers[wire.HeaderError]), `x-delay: "tomorrow"`) {
		t.Errorf("in quarantine: body %q, key %q, headers %v", d.Body, d.RoutingKey, d.Headers)
	}
}

// Messages that brokers accept and amqp091-go cannot read, for an array of more than
// 8192 elements or tables nested more than 32 deep, would end the connection of whoever
// consumes them. Each costs the intake one delivery.
func TestPoisonInTheInboxGoesToQuarantineAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	all := make([]amqp.Publishing, 700) // more than an intake has in hand
	for i := range all {
		all[i] = amqp.Publishing{MessageId: fmt.Sprint("harmless-", i), Headers: amqp.Table{"x-delay": int32(1234)}}
	}
	deep := amqp.Table{}
	for range wire.MaxHeaderDepth + 1 {
		deep = amqp.Table{"t": deep}
	}
	poison := []amqp.Publishing{
		{MessageId: "long", Headers: amqp.Table{"x-delay": int32(1234), "list": make([]any, wire.MaxHeaderElements+1)}, Body: []byte("kept")},
		{MessageId: "deep", Headers: amqp.Table{"x-delay": int32(1234), "table": deep}, Body: []byte("kept")},
	}
	b.publishEntry(t, slices.Insert(slices.Clone(all), 5, poison...)...)
	b.run(t, nil)
	for _, p := range all {
		b.arrivals.awaitID(t, p.MessageId)
	}
	ch := b.channel(t)
	for queue, want := range map[string]int{b.topology.Quarantine(): len(poison), b.topology.Inbox(): 0} {
		until(t, fmt.Sprintf("%s holds %d", queue, want), func() bool {
			q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
			return err == nil && q.Messages == want
		})
	}
	// As they were sent; why is in the log.
	for _, aside := range b.look(t, b.topology.Quarantine(), len(poison)) {
		if aside.Payload != "kept" || aside.RoutingKey != "order.unpaid" || aside.Properties.Headers.Death[0].Reason != "rejected" {
			t.Errorf("in quarantine: %+v", aside)
		}
	}
}

// look returns the first messages of a queue as the management UI shows them, to whom
// no client library can.
func (b *bench) look(t *testing.T, queue string, n int) []shown {
	t.Helper()
	var messages []shown
	answer := b.Manage(t, http.MethodPost, "/api/queues/"+b.VHost+"/"+queue+"/get",
		fmt.Sprintf(`{"count":%d,"ackmode":"ack_requeue_true","encoding":"auto"}`, n))
	if err := json.Unmarshal(answer, &messages); err != nil {
		t.Fatal(err)
	}
	if len(messages) != n {
		t.Fatalf("%s shows %d messages, want %d", queue, len(messages), n)
	}
	return messages
}

// shown is what of a message the management API shows.
type shown struct {
	Payload    string
	RoutingKey string `json:"routing_key"`
	Properties struct {
		Headers struct {
			Death []struct{ Reason string } `json:"x-death"`
		}
	}
}

// Foreign clients need not give each message an ID of its own.
func TestMessagesWithTheSameOrNoIDAreAllDelivered(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	b.run(t, nil)
	for i := range 3 {
		b.publishEntry(t, amqp.Publishing{MessageId: "same", Headers: amqp.Table{"x-delay": int32(1100 + i)}})
		b.publishEntry(t, amqp.Publishing{Headers: amqp.Table{"x-delay": int32(1100 + i)}})
	}
	all := b.arrivals.await(t, 4, patience) // "same", and three generated IDs
	for deadline := time.Now().Add(patience); len(all["same"]) < 3 && time.Now().Before(deadline); {
		all = b.arrivals.await(t, 4, patience)
	}
	if len(all["same"]) != 3 {
		t.Errorf("%d messages with the same ID arrived, want 3", len(all["same"]))
	}
}

// holdMessage holds back, until it is released, what is sent to Redis of one message.
type holdMessage struct {
	id       string
	once     sync.Once
	held     chan struct{} // closed once there was something
	released chan struct{}
}

func (*holdMessage) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*holdMessage) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (h *holdMessage) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return slices.Contains(cmd.Args(), any(h.id)) }) {
			h.once.Do(func() { close(h.held) })
			<-h.released
		}
		return next(ctx, cmds)
	}
}

// changeHands has a bridge take a message in, lose its connection to the broker before it
// has parked it, and try that only when another bridge has been given the message, and
// parkedThen.
func (b *bench) changeHands(t *testing.T, p amqp.Publishing, parkedThen func() bool) {
	t.Helper()
	u, err := url.Parse(b.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), t.Name(), "127.0.0.1:0", u.Host)
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Stop)
	u.Host = proxy.Listen
	client := connect(t, b.RedisURL)
	hold := &holdMessage{id: p.MessageId, held: make(chan struct{}), released: make(chan struct{})}
	client.AddHook(hold)
	b.run(t, func(c *redisbridge.Config) { c.AMQPURL, c.Client, c.Name = u.String(), client, "first" })
	release := sync.OnceFunc(func() { close(hold.released) })
	t.Cleanup(release) // before the bridge is to end

	b.publishEntry(t, p)
	select {
	case <-hold.held:
	case <-time.After(patience):
		t.Fatal("nobody has taken the message in")
	}
	b.run(t, func(c *redisbridge.Config) { c.Name = "second" })
	proxy.Stop()
	until(t, "the other bridge has it", parkedThen)
	release()
}

// A message that another bridge was given meanwhile is not taken for a second one with its
// ID, which no change of the first one would reach.
func TestMessageThatHasChangedHandsIsOne(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	b.changeHands(t, amqp.Publishing{MessageId: "m", Headers: amqp.Table{"x-delay": int32(7500)}, Body: []byte("one")}, func() bool {
		_, known, err := lookUp(b.park.Get(t.Context(), "m"))
		return err == nil && known
	})
	change, err := b.park.Reschedule(t.Context(), "m", message.After(11*time.Second))
	if err != nil || change.Outcome != redisbridge.OutcomeDone {
		t.Fatalf("reschedule: %+v, %v; want it done", change, err)
	}
	got := b.arrivals.awaitID(t, "m")
	if early := change.Due.Sub(got.at); early > 0 {
		t.Errorf("came %v before its new due time", early)
	}
}

// A message that says something else than the one that waits under its ID is no repetition
// of it, not even where the broker has delivered it before.
func TestAnotherMessageWithTheIDThatHasChangedHandsIsDelivered(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	b.parkThis(t, &message.Message{ID: "same", RoutingKey: "order.unpaid", Body: []byte("one")}, message.After(time.Hour))
	b.changeHands(t, amqp.Publishing{MessageId: "same", Headers: amqp.Table{"x-delay": int32(1500)}, Body: []byte("two")}, func() bool {
		return len(b.list(t, redisbridge.Filter{})) == 2 || len(b.arrivals.first()) > 0
	})
	if got := b.arrivals.awaitID(t, "same"); string(got.Body) != "two" {
		t.Errorf("got %q first", got.Body)
	}
}
