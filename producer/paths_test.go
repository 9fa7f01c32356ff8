package producer_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/producer"
	"github.com/delaybridge/delaybridge/topology"
)

// full has every property and every type of header.
func full(id string) message.Message {
	return message.Message{
		ID: id, RoutingKey: "order.unpaid.eu", Body: []byte{0, 1, 255}, ContentType: "ct", ContentEncoding: "ce",
		CorrelationID: "corr", ReplyTo: "reply", Type: "type", AppID: "app", Timestamp: time.Unix(1_700_000_000, 0),
		Expiration: "1", UserID: "guest", Priority: 7,
		Headers: amqp.Table{
			"bool": true, "int8": int8(-8), "byte": byte(8), "int16": int16(-16), "uint16": uint16(16), "int32": int32(-32),
			"uint32": uint32(32), "int64": int64(-1 << 60), "float": float32(1.5), "double": 2.5, "text": "t", "bytes": []byte{9, 0},
			"decimal": amqp.Decimal{Scale: 2, Value: -314}, "time": time.Unix(1_600_000_000, 0), "nothing": nil,
			"table": amqp.Table{"array": []any{int32(1), amqp.Table{"deep": "er"}}},
		},
	}
}

func TestEveryPathDeliversWhatWasPublished(t *testing.T) {
	t.Parallel()
	b, _ := newBench(t)
	past := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	p := b.producer(t, producer.Config{Untracked: true, Parker: &parker{ticket: message.Ticket{Parking: message.Overdue, Due: past}}})
	for _, c := range []struct {
		id   string
		w    message.When
		path message.Path
		past bool
	}{
		{"at once", message.When{}, message.PathDirect, false},
		{"300ms", message.After(300 * time.Millisecond), message.Path("tier 300ms"), false},
		{"1s", message.After(time.Second), message.Path("tier 1s"), false},
		{"in the past", message.At(past), message.PathDirect, true},
	} {
		t.Run(c.id, func(t *testing.T) {
			want := full(c.id)
			before := time.Now()
			receipt, err := p.Publish(t.Context(), want, c.w)
			if err != nil {
				t.Fatal(err)
			}
			got := b.collect(t, everything, c.id)[c.id]
			if receipt.Path != c.path || receipt.Past != c.past || receipt.Duplicate {
				t.Errorf("got %+v, want path %q, past %v", receipt, c.path, c.past)
			}
			if !c.past && (receipt.Due.Before(c.w.From(before)) || receipt.Due.After(c.w.From(time.Now()))) || c.past && !receipt.Due.Equal(past) {
				t.Errorf("receipt says due %v", receipt.Due)
			}
			if got.at.Before(receipt.Due) {
				t.Errorf("%v early", receipt.Due.Sub(got.at))
			}
			if got.DeliveryMode != amqp.Persistent {
				t.Error("not persistent")
			}
			m := b.topology.Message(&got.Delivery)
			if j := m.Journey; j.Path != c.path || !j.Due.Equal(receipt.Due.Truncate(time.Millisecond)) || j.Published.Before(before.Truncate(time.Millisecond)) {
				t.Errorf("journey %+v, receipt %+v", j, receipt)
			}
			m.Journey = message.Journey{}
			if !reflect.DeepEqual(m, want) {
				t.Errorf("got  %#v\nwant %#v", m, want)
			}
		})
	}
}

// Each path of an entry ends in its own ready exchange, or begins in its own
// entry exchange, and says which entry it is.
func TestEveryPathOfAnEntry(t *testing.T) {
	t.Parallel()
	b, _ := newBench(t)
	const ofAudit = "of audit"
	if _, err := b.ch.QueueDeclare(ofAudit, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	if err := b.ch.QueueBind(ofAudit, "", b.topology.ReadyExchangeOf("audit"), false, nil); err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-time.Hour)
	fake := &parker{ticket: message.Ticket{Parking: message.Overdue, Due: past}}
	parks, plain := b.producer(t, producer.Config{Parker: fake, Untracked: true}), b.producer(t, producer.Config{})
	for id, c := range map[string]struct {
		producer *producer.Producer
		w        message.When
		queue    string
		path     message.Path
	}{
		"at once": {parks, message.When{}, ofAudit, message.PathDirect},
		"tier":    {parks, message.After(time.Second), ofAudit, message.Path("tier 1s")},
		"past":    {parks, message.At(past), ofAudit, message.PathDirect},
		"inbox":   {plain, message.After(7 * time.Second), b.topology.Inbox(), message.PathInbox},
	} {
		m := full(id)
		m.Entry = "audit"
		receipt, err := c.producer.Publish(t.Context(), m, c.w)
		if err != nil || receipt.Path != c.path {
			t.Errorf("%s: got %+v (%v), want path %q", id, receipt, err, c.path)
		}
		got := b.collect(t, c.queue, id)[id]
		if c.path == message.PathInbox && got.Exchange != b.topology.EntryExchangeOf("audit") {
			t.Errorf("%s: came through %s", id, got.Exchange)
		}
		arrived := b.topology.Message(&got.Delivery)
		arrived.Journey = message.Journey{}
		delete(arrived.Headers, wire.HeaderDelay) // by which the entry exchange goes
		if !reflect.DeepEqual(arrived, m) {
			t.Errorf("%s: got  %#v\nwant %#v", id, arrived, m)
		}
	}
	if len(fake.parked) != 1 || fake.parked[0].Entry != "audit" {
		t.Errorf("parked %v, want one message of the entry", fake.parked)
	}
	if q, err := b.ch.QueueDeclarePassive(everything, true, false, false, false, nil); err != nil || q.Messages > 0 {
		t.Errorf("the default ready exchange got %d messages (%v)", q.Messages, err)
	}
}

// A delay that equals a tier takes the parker's way, or the inbox's.
func TestATrackedEntryHasNoPathThroughATier(t *testing.T) {
	t.Parallel()
	b, env := newBench(t)
	tracked, err := topology.New(topology.Config{
		Prefix: env.Prefix, Tiers: []time.Duration{300 * time.Millisecond, time.Second, time.Hour}, Lead: time.Second, Shards: 1,
		Entries: []topology.Entry{{Name: "audit", Kind: amqp.ExchangeFanout, Tracked: true}}, Tracked: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	b.topology = tracked
	b.apply(t)
	fake := &parker{ticket: message.Ticket{Parking: message.Parked}}
	parks, plain := b.producer(t, producer.Config{Parker: fake}), b.producer(t, producer.Config{})
	for _, entry := range []string{"", "audit"} {
		m := order("of " + entry)
		m.Entry = entry
		if receipt, err := parks.Publish(t.Context(), m, message.After(time.Hour)); err != nil || receipt.Path != message.PathParked {
			t.Errorf("entry %q, with a parker: %+v (%v)", entry, receipt, err)
		}
		receipt, err := plain.Publish(t.Context(), m, message.After(time.Hour))
		if got := b.collect(t, tracked.Inbox(), m.ID)[m.ID]; err != nil || receipt.Path != message.PathInbox || got.Exchange != tracked.EntryExchangeOf(entry) {
			t.Errorf("entry %q, without: %+v (%v), through %s", entry, receipt, err, got.Exchange)
		}
	}
	if len(fake.parked) != 2 {
		t.Errorf("parked: %v", fake.parked)
	}
}

func TestWithoutAParkerMessagesGoThroughTheInbox(t *testing.T) {
	t.Parallel()
	b, _ := newBench(t)
	p := b.producer(t, producer.Config{})
	at := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	for id, c := range map[string]struct {
		w      message.When
		header string
		want   int64
		past   bool
	}{
		"relative": {message.After(7300 * time.Millisecond), wire.HeaderDelay, 7300, false},
		"absolute": {message.At(at), wire.HeaderDeliverAt, at.UnixMilli(), false},
		"past":     {message.At(time.UnixMilli(5000)), wire.HeaderDeliverAt, 5000, true},
		"far":      {message.After(message.MaxDelay), wire.HeaderDelay, message.MaxDelay.Milliseconds(), false},
	} {
		m := order(id)
		// These would send it elsewhere.
		m.Headers = amqp.Table{
			wire.HeaderDelay: int64(1000), wire.HeaderDeliverAt: int64(0), "mine": "kept",
			wire.HeaderDeliveryTime: int64(1), wire.HeaderDeliveryDelay: int64(1000),
		}
		receipt, err := p.Publish(t.Context(), m, c.w)
		if err != nil {
			t.Fatal(err)
		}
		got := b.collect(t, b.topology.Inbox(), id)[id]
		if got.Headers[c.header] != c.want || got.Headers["mine"] != "kept" || got.RoutingKey != m.RoutingKey {
			t.Errorf("%s: arrived with key %q, headers %v; want %s %d", id, got.RoutingKey, got.Headers, c.header, c.want)
		}
		if _, both := got.Headers[wire.HeaderDelay]; both && c.header != wire.HeaderDelay {
			t.Errorf("%s: arrived with both headers", id)
		}
		if receipt.Path != message.PathInbox || receipt.Past != c.past {
			t.Errorf("%s: got %+v", id, receipt)
		}
		for _, name := range []string{wire.HeaderDeliveryTime, wire.HeaderDeliveryDelay, wire.HeaderAskedTime, wire.HeaderAskedDelay} {
			if value, there := got.Headers[name]; there {
				t.Errorf("%s: arrived with header %s: %v", id, name, value)
			}
		}
		if len(m.Headers) != 5 {
			t.Errorf("%s: the caller's headers were changed", id)
		}
	}
}

func TestManyGoroutinesOverFewChannels(t *testing.T) {
	t.Parallel()
	b, _ := newBench(t)
	p := b.producer(t, producer.Config{Channels: 3})
	const goroutines, each = 200, 25
	var all sync.WaitGroup
	var ids []string
	for g := range goroutines {
		own := make([]string, each)
		for i := range own {
			own[i] = fmt.Sprintf("%d-%d", g, i)
		}
		ids = append(ids, own...)
		all.Go(func() {
			for _, id := range own {
				if _, err := p.Publish(t.Context(), order(id), message.After(300*time.Millisecond)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for id, got := range b.collect(t, everything, ids...) {
		if due := b.topology.Message(&got.Delivery).Journey.Due; got.at.Before(due) {
			t.Errorf("%s: %v early", id, due.Sub(got.at))
		}
	}
}

// What leads nowhere is refused, on every path, and not confirmed and dropped.
func TestQueueThatIsGone(t *testing.T) {
	t.Parallel()
	b, _ := newBench(t)
	p := b.producer(t, producer.Config{})
	tier, _ := b.topology.Tier(time.Second)
	if err := b.ch.QueueUnbind(everything, "#", b.topology.ReadyExchange(), nil); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		queue, exchange string
		w               message.When
	}{
		{tier.Name, tier.Name, message.After(time.Second)},
		{b.topology.Inbox(), b.topology.EntryExchange(), message.After(1234 * time.Millisecond)},
		{b.topology.Unrouted(), b.topology.ReadyExchange(), message.After(0)},
	} {
		if _, err := b.ch.QueueDelete(tc.queue, false, false, false); err != nil {
			t.Fatal(err)
		}
		_, err := p.Publish(t.Context(), order("o-1"), tc.w)
		if !errors.Is(err, producer.ErrUnroutable) || !strings.Contains(err.Error(), tc.exchange) {
			t.Errorf("without %s: got %v, want ErrUnroutable, and the exchange's name", tc.queue, err)
		}
	}
}

func TestTopologyThatWasNeverApplied(t *testing.T) {
	t.Parallel()
	env := servertest.ForTest(t)
	b := &bench{url: env.AMQPURL, topology: describe(t, env.Prefix)}
	p := b.producer(t, producer.Config{})
	for exchange, w := range map[string]message.When{
		b.topology.ReadyExchange(): {},
		env.Prefix + ".tier.1s":    message.After(time.Second),
		b.topology.EntryExchange(): message.After(2 * time.Second),
	} {
		_, err := p.Publish(t.Context(), order("o-1"), w)
		if !errors.Is(err, producer.ErrNotSent) || !errors.Is(err, producer.ErrMissing) {
			t.Errorf("%s: got %v, want ErrNotSent and ErrMissing", exchange, err)
			continue
		}
		for _, word := range []string{exchange, "topology apply"} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%q does not mention %q", err, word)
			}
		}
	}
	b.apply(t)
	if _, err := p.Publish(t.Context(), order("o-1"), message.When{}); err != nil {
		t.Errorf("after it was applied: %v", err)
	}
}

// An exchange that is deleted under a running producer costs the messages on
// the channel their confirms, once.
func TestExchangeDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	b, _ := newBench(t)
	p := b.producer(t, producer.Config{Channels: 1})
	tier, _ := b.topology.Tier(time.Hour)
	publish := func() error {
		_, err := p.Publish(t.Context(), order("o-1"), message.After(time.Hour))
		return err
	}
	if err := publish(); err != nil {
		t.Fatal(err)
	}
	if err := b.ch.ExchangeDelete(tier.Name, false, false); err != nil {
		t.Fatal(err)
	}
	if err := publish(); !errors.Is(err, producer.ErrUnconfirmed) || !errors.Is(err, producer.ErrMissing) {
		t.Errorf("the first: got %v, want ErrUnconfirmed and ErrMissing", err)
	}
	if err := publish(); !errors.Is(err, producer.ErrNotSent) || !errors.Is(err, producer.ErrMissing) {
		t.Errorf("the second: got %v, want ErrNotSent and ErrMissing", err)
	}
	if _, err := p.Publish(t.Context(), order("o-2"), message.When{}); err != nil {
		t.Errorf("to another exchange: %v", err)
	}
}

func TestMissingPermissions(t *testing.T) {
	t.Parallel()
	b, env := newBench(t)
	user := env.Prefix + "-user"
	env.Manage(t, http.MethodPut, "/api/users/"+user, `{"password":"secret","tags":""}`)
	t.Cleanup(func() { env.Manage(t, http.MethodDelete, "/api/users/"+user, "") })
	with := func(password string) string {
		u, err := url.Parse(b.url)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(user, password)
		return u.String()
	}

	for password, word := range map[string]string{"wrong": "user name or password", "secret": "permit the user"} {
		p := newProducer(t, producer.Config{AMQPURL: with(password), Topology: b.topology})
		err := p.Run(t.Context())
		if !errors.Is(err, producer.ErrConfiguration) || !strings.Contains(err.Error(), word) {
			t.Errorf("password %q, no permission: Run returned %v, want ErrConfiguration", password, err)
		}
		if _, err := p.Publish(t.Context(), order("o-1"), message.When{}); !errors.Is(err, producer.ErrNotSent) || !errors.Is(err, producer.ErrConfiguration) {
			t.Errorf("password %q, no permission: Publish returned %v, want ErrNotSent and ErrConfiguration", password, err)
		}
	}

	env.Manage(t, http.MethodPut, "/api/permissions/"+env.VHost+"/"+user, `{"configure":"","write":"","read":""}`)
	p := newProducer(t, producer.Config{AMQPURL: with("secret"), Topology: b.topology})
	run(t, p)
	_, err := p.Publish(t.Context(), order("o-1"), message.After(time.Second))
	if !errors.Is(err, producer.ErrForbidden) || !strings.Contains(err.Error(), env.Prefix+".tier.1s") {
		t.Errorf("may not write: got %v, want ErrForbidden, and the exchange's name", err)
	}
	env.Manage(t, http.MethodPut, "/api/permissions/"+env.VHost+"/"+user, `{"configure":"","write":".*","read":""}`)
	for deadline := time.Now().Add(patience); ; {
		_, err := p.Publish(t.Context(), order("o-1"), message.After(time.Second))
		if err == nil {
			break
		}
		if !errors.Is(err, producer.ErrForbidden) || time.Now().After(deadline) {
			t.Fatalf("once permitted: %v", err)
		}
	}
}

func TestContextEndsWhileTheBrokerIsSilent(t *testing.T) {
	t.Parallel()
	server, b := newBenchOfItsOwn(t, "silent")
	p := newProducer(t, producer.Config{AMQPURL: b.url, Topology: b.topology})
	stop := run(t, p)
	if _, err := p.Publish(t.Context(), order("before"), message.When{}); err != nil {
		t.Fatal(err)
	}
	if err := server.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer stop() // with a silent broker
	ctx, cancel := context.WithTimeout(t.Context(), 10*soon)
	defer cancel()
	_, err := p.Publish(ctx, order("during"), message.When{})
	if !errors.Is(err, producer.ErrUnconfirmed) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want ErrUnconfirmed and the context's error", err)
	}
	// Once buffers are full, a write hangs. That holds nobody up beyond the context.
	var all sync.WaitGroup
	large := order("large")
	large.Body = make([]byte, 4<<20)
	for range 8 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 10*soon)
			defer cancel()
			began := time.Now()
			_, err := p.Publish(ctx, large, message.When{})
			if !errors.Is(err, producer.ErrUnconfirmed) && !errors.Is(err, producer.ErrNotSent) {
				t.Errorf("got %v, want ErrUnconfirmed or ErrNotSent", err)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("Publish took %v, with a context of %v", took, 10*soon)
			}
		})
	}
	all.Wait()
}
