package message_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"pgregory.net/rapid"

	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/internal/wiretest"
	"github.com/delaybridge/delaybridge/message"
)

// delivery is what a consumer gets of a publishing.
func delivery(p amqp.Publishing, key string) *amqp.Delivery {
	return &amqp.Delivery{
		Headers: p.Headers, ContentType: p.ContentType, ContentEncoding: p.ContentEncoding, DeliveryMode: p.DeliveryMode,
		Priority: p.Priority, CorrelationId: p.CorrelationId, ReplyTo: p.ReplyTo, Expiration: p.Expiration,
		MessageId: p.MessageId, Timestamp: p.Timestamp, Type: p.Type, UserId: p.UserId, AppId: p.AppId,
		RoutingKey: key, Body: p.Body,
	}
}

func TestDeliveredAsPublished(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := wiretest.Message().Draw(t, "message")
		j := message.Journey{
			Published: time.UnixMilli(rapid.Int64Range(0, 1<<42).Draw(t, "published")).UTC(),
			Due:       time.UnixMilli(rapid.Int64Range(0, 1<<42).Draw(t, "due")).UTC(),
			Path:      message.Path("tier 30m"),
		}
		p := want.Publishing(j)
		if p.DeliveryMode != amqp.Persistent || p.Expiration != "" || p.UserId != "" || p.Priority != 0 {
			t.Fatalf("acts on the way: %+v", p)
		}
		got := message.FromBridge(delivery(p, want.RoutingKey))
		if !got.Journey.Published.Equal(j.Published) || !got.Journey.Due.Equal(j.Due) || got.Journey.Path != j.Path {
			t.Fatalf("journey %+v, want %+v", got.Journey, j)
		}
		got.Journey = message.Journey{}
		if !wiretest.Same(got, want) {
			t.Fatalf("got  %#v\nwant %#v", got, want)
		}
	})
}

func TestPublishingLeavesTheMessageAlone(t *testing.T) {
	t.Parallel()
	m := valid()
	m.Headers = amqp.Table{"n": 1, "x-death": []any{}}
	_ = m.Publishing(message.Journey{Due: instant(), Path: message.PathDirect})
	if !reflect.DeepEqual(m.Headers, amqp.Table{"n": 1, "x-death": []any{}}) {
		t.Errorf("headers became %v", m.Headers)
	}
}

func TestPublishingWidensInt(t *testing.T) {
	t.Parallel()
	m := valid()
	m.Headers = amqp.Table{"n": 1 << 40, "a": []any{1, amqp.Table{"n": 2}}}
	want := amqp.Table{"n": int64(1 << 40), "a": []any{int64(1), amqp.Table{"n": int64(2)}}}
	if got := m.Publishing(message.Journey{}).Headers; !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v, want %#v", got, want)
	}
}

// A message that is published again with what dead-lettering has left behind is
// dropped by brokers up to 3.13.
func TestTracesOfTheBrokerAreNotSentOn(t *testing.T) {
	t.Parallel()
	headers := amqp.Table{
		"x-death": []any{amqp.Table{"count": int64(1)}}, "x-delivery-count": int64(2), "x-acquired-count": int64(3),
		"x-first-death-exchange": "a", "x-first-death-queue": "b", "x-first-death-reason": "c",
		"x-last-death-exchange": "a", "x-last-death-queue": "b", "x-last-death-reason": "c", "mine": "kept",
	}
	want := amqp.Table{"mine": "kept"}
	m := valid()
	m.Headers = headers
	if got := m.Publishing(message.Journey{}).Headers; !reflect.DeepEqual(got, want) {
		t.Errorf("published with %v", got)
	}
	if got := message.FromDelivery(&amqp.Delivery{Headers: headers}).Headers; !reflect.DeepEqual(got, want) {
		t.Errorf("delivered with %v", got)
	}
}

func TestWhatWasAskedOfTheBrokerTravelsUnderOtherNames(t *testing.T) {
	t.Parallel()
	m := valid()
	m.Headers = amqp.Table{wire.HeaderDeliveryTime: 1 << 40, wire.HeaderDeliveryDelay: nil, "mine": "kept"}
	retry := m.Retry()
	for name, p := range map[string]amqp.Publishing{"at first": m.Publishing(message.Journey{}), "in a retry": retry.Publishing(message.Journey{})} {
		for header, want := range map[string]any{wire.HeaderAskedTime: int64(1 << 40), wire.HeaderAskedDelay: nil, "mine": "kept"} {
			if got, there := p.Headers[header]; got != want || !there {
				t.Errorf("%s: header %s is %v (%v), want %v", name, header, got, there, want)
			}
		}
		for _, header := range []string{wire.HeaderDeliveryTime, wire.HeaderDeliveryDelay} {
			if got, there := p.Headers[header]; there {
				t.Errorf("%s: header %s is sent: %v", name, header, got)
			}
		}
		for name, read := range map[string]func(*amqp.Delivery) message.Message{"foreign": message.FromDelivery, "ours": message.FromBridge} {
			want := amqp.Table{wire.HeaderDeliveryTime: int64(1 << 40), wire.HeaderDeliveryDelay: nil, "mine": "kept"}
			if got := read(delivery(p, "k")).Headers; !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got headers %v, want %v", name, got, want)
			}
		}
	}
	// A publisher that sends on what it got, and asks anew, has the last word.
	again := amqp.Publishing{Headers: amqp.Table{wire.HeaderAskedTime: int64(1), wire.HeaderDeliveryTime: int64(2)}}
	if got := message.FromDelivery(delivery(again, "k")).Headers; !reflect.DeepEqual(got, amqp.Table{wire.HeaderDeliveryTime: int64(2)}) {
		t.Errorf("asked anew: got headers %v", got)
	}
}

func TestForeignDelivery(t *testing.T) {
	t.Parallel()
	got := message.FromBridge(&amqp.Delivery{
		MessageId: "o-1", RoutingKey: "k", Priority: 3, Expiration: "5", UserId: "u",
		Headers: amqp.Table{
			// Not what the bridge writes under these names.
			wire.HeaderDue: "tomorrow", wire.HeaderPublished: int64(5), wire.HeaderPriority: "high",
			wire.HeaderUserID: true, wire.HeaderEntry: strings.Repeat("x", 256), wire.ReservedPrefix + "unheard-of": "x",
		},
	})
	want := message.Message{ID: "o-1", RoutingKey: "k", Priority: 3, Expiration: "5", UserID: "u"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %#v\nwant %#v", got, want)
	}
}

func TestExpirationOfATierOrALane(t *testing.T) {
	t.Parallel()
	deaths := []any{amqp.Table{"queue": "later"}, amqp.Table{"original-expiration": "5000", "queue": "tier"}}
	for name, c := range map[string]struct {
		delivery amqp.Delivery
		from     func(*amqp.Delivery) message.Message
		want     string
	}{
		"a tier, from a foreign client": {amqp.Delivery{Headers: amqp.Table{"x-death": deaths}}, message.FromDelivery, "5000"},
		"a tier, from a producer":       {amqp.Delivery{Headers: amqp.Table{"x-death": deaths[:1], wire.HeaderExpiration: "7"}}, message.FromDelivery, "7"},
		"a lane":                        {amqp.Delivery{Headers: amqp.Table{"x-death": deaths}}, message.FromBridge, ""},
		"a lane, and one of its own":    {amqp.Delivery{Headers: amqp.Table{"x-death": deaths, wire.HeaderExpiration: "7"}}, message.FromBridge, "7"},
		"not yet dead":                  {amqp.Delivery{Expiration: "9", Headers: amqp.Table{"x-death": deaths}}, message.FromDelivery, "9"},
		"a queue of the consumer's own": {amqp.Delivery{Headers: amqp.Table{"x-death": []any{deaths[1], amqp.Table{"queue": "tier"}}}}, message.FromDelivery, ""},
		"of another type":               {amqp.Delivery{Headers: amqp.Table{"x-death": []any{"x", amqp.Table{"original-expiration": 1}}}}, message.FromDelivery, ""},
	} {
		if got := c.from(&c.delivery).Expiration; got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// Anybody may send headers whose names are reserved: they tell nothing, and do not come along.
func TestForgedHeadersTellNothing(t *testing.T) {
	t.Parallel()
	got := message.FromDelivery(&amqp.Delivery{MessageId: "o-1", RoutingKey: "k", Priority: 3, Headers: amqp.Table{
		wire.HeaderPublished: "9999-01-01T00:00:00.000Z", wire.HeaderDue: "9999-01-01T00:00:01.000Z", wire.HeaderPath: "replayed",
		wire.HeaderUserID: "admin", wire.HeaderEntry: "orders", wire.HeaderVersion: int64(7), wire.HeaderQueue: "k", wire.HeaderKey: "other",
		wire.HeaderAttempts: int64(4), wire.HeaderHistory: []any{"a line"}, wire.HeaderError: "e", wire.HeaderStepTraceparent: "t",
	}})
	if want := (message.Message{ID: "o-1", RoutingKey: "k", Priority: 3}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v", got)
	}
}
