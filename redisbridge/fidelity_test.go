package redisbridge_test

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/internal/wiretest"
	"github.com/delaybridge/delaybridge/message"
)

// Delays by which a foreign client's message takes each way, in a bench that is
// short: through a tier the broker alone moves it, and with 0 to the ready exchange.
var ways = map[string]int64{"tier": 1000, "parked": 1234, "at once": 0} //nolint:gochecknoglobals // the table under test

// foreign is a message of a client without our packages, and its routing key.
type foreign struct {
	amqp.Publishing
	key string
}

// foreigners are messages that have one property or header each that might suffer.
func foreigners(user string) map[string]foreign {
	all := map[string]foreign{}
	add := func(name string, p amqp.Publishing) { all[name] = foreign{p, "order.unpaid"} }
	text := strings.Repeat("x", 254) + "y"
	allBytes := make([]byte, 256)
	for i := range allBytes {
		allBytes[i] = byte(i)
	}
	for name, p := range map[string]amqp.Publishing{
		"content type": {ContentType: text}, "content encoding": {ContentEncoding: text}, "correlation ID": {CorrelationId: text},
		"reply-to": {ReplyTo: text}, "type": {Type: text}, "app ID": {AppId: text},
		"no UTF-8":  {ContentType: "\xff\x00", Type: "\xfe", CorrelationId: "\x80"},
		"timestamp": {Timestamp: time.Unix(1_700_000_000, 0)}, "timestamp 0": {Timestamp: time.Unix(0, 0)},
		"timestamp in milliseconds": {Timestamp: time.Unix(1_700_000_000_000, 0)},
		"priority":                  {Priority: 4}, "highest priority": {Priority: 255}, "user ID": {UserId: user},
		"transient": {DeliveryMode: amqp.Transient}, "persistent": {DeliveryMode: amqp.Persistent}, "no delivery mode": {},
		"no body": {}, "every byte": {Body: allBytes}, "body of a mebibyte": {Body: bytes.Repeat(allBytes, 4<<10)},
	} {
		add(name, p)
	}
	deep := amqp.Table{"leaf": "end"}
	for range wire.MaxHeaderDepth - 1 {
		deep = amqp.Table{"t": deep}
	}
	many := amqp.Table{}
	for i := range 2000 {
		many[fmt.Sprint("header-", i)] = int32(i)
	}
	for name, value := range map[string]any{
		"true": true, "false": false, "int8": int8(-128), "byte": byte(255), "int16": int16(-1 << 15), "uint16": uint16(1<<16 - 1),
		"int32": int32(-1 << 31), "uint32": uint32(1<<32 - 1), "int64": int64(math.MinInt64), "wire type L": wiretest.Long(1 << 47),
		"float": float32(1.1), "smallest float": math.Float32frombits(1), "double": math.Pi, "largest double": math.MaxFloat64, "negative zero": math.Copysign(0, -1),
		"decimal": amqp.Decimal{Scale: 2, Value: 314}, "negative decimal": amqp.Decimal{Scale: 255, Value: -1}, "text": "t", "empty text": "", "unicode": "déjà vu ☃ 🐰",
		"text without UTF-8": "\xff\xfe\x00", "bytes": allBytes, "no bytes": []byte{}, "time": time.Unix(1_600_000_000, 0), "time 0": time.Unix(0, 0), "void": nil,
		"table": amqp.Table{"a": int8(1), "b": amqp.Table{"c": []any{"d"}}}, "empty table": amqp.Table{}, "deepest": deep, "empty name": amqp.Table{"": "x"},
		"array": []any{int8(1), "s", nil, []any{}, amqp.Table{}, true, 1.5, []byte{0}}, "empty array": []any{}, "long array": make([]any, wire.MaxHeaderElements),
		"large text": strings.Repeat("z", 100_000),
	} {
		add("header: "+name, amqp.Publishing{Headers: amqp.Table{"it": value}})
	}
	for name, headers := range map[string]amqp.Table{
		"longest name": {strings.Repeat("n", 255): int32(1)}, "unicode name": {"☃": int32(1)}, "name without UTF-8": {"\xff": int32(1)}, "two thousand": many,
		"names like RabbitMQ's": {"x-match": "any", "x-stream-offset": "first", "x-message-ttl": int32(1), "x-expires": int32(1)},
		"CC":                    {"CC": []any{"carbon"}},
		"a delay of RabbitMQ's": {wire.HeaderDeliveryDelay: int32(9999)}, // x-delay counts
	} {
		add("headers: "+name, amqp.Publishing{Headers: headers})
	}
	all["routing key of 255 bytes"] = foreign{key: strings.Repeat("k", 255)}
	all["routing key of 0 bytes"] = foreign{}
	all["routing key without UTF-8"] = foreign{key: "\xff.\x00"}
	return all
}

// unchanged compares a delivery with what was published, but for what the wire
// contract says of the way it took.
func (f foreign) unchanged(way string, got *amqp.Delivery) error {
	want := f.Publishing
	headers := maps.Clone(got.Headers)
	for name := range headers {
		if strings.HasPrefix(name, "x-first-death-") || strings.HasPrefix(name, "x-last-death-") || name == "x-death" {
			if _, mine := want.Headers[name]; !mine {
				delete(headers, name)
			}
		}
	}
	if way == "parked" {
		want.DeliveryMode = amqp.Persistent
		for name, property := range map[string]string{wire.HeaderExpiration: want.Expiration, wire.HeaderUserID: want.UserId} {
			if kept, _ := headers[name].(string); kept != property {
				return fmt.Errorf("header %s is %q, want %q", name, kept, property)
			}
		}
		if kept, _ := headers[wire.HeaderPriority].(byte); kept != want.Priority {
			return fmt.Errorf("header %s is %v, want %d", wire.HeaderPriority, headers[wire.HeaderPriority], want.Priority)
		}
		want.Expiration, want.UserId, want.Priority = "", "", 0
		for name := range headers {
			if strings.HasPrefix(name, wire.ReservedPrefix) {
				delete(headers, name)
			}
		}
		if asked, there := got.Headers[wire.HeaderAskedDelay]; there {
			headers[wire.HeaderDeliveryDelay] = asked
		}
	}
	if !wiretest.Same(headers, expected(f.Headers)) {
		return fmt.Errorf("headers %.500v\nwant %.500v", fmt.Sprintf("%#v", headers), fmt.Sprintf("%#v", f.Headers))
	}
	if !bytes.Equal(got.Body, want.Body) {
		return fmt.Errorf("body of %d bytes, want %d, or others", len(got.Body), len(want.Body))
	}
	want.Headers, want.Body = nil, nil
	have := amqp.Publishing{
		ContentType: got.ContentType, ContentEncoding: got.ContentEncoding, DeliveryMode: got.DeliveryMode, Priority: got.Priority,
		CorrelationId: got.CorrelationId, ReplyTo: got.ReplyTo, Expiration: got.Expiration, MessageId: got.MessageId,
		Timestamp: got.Timestamp, Type: got.Type, UserId: got.UserId, AppId: got.AppId,
	}
	if !reflect.DeepEqual(have, want) || got.RoutingKey != f.key {
		return fmt.Errorf("properties %+v, routing key %q\nwant %+v, %q", have, got.RoutingKey, want, f.key)
	}
	return nil
}

// expected is what headers arrive as: wire type L becomes l on the way.
func expected(headers amqp.Table) amqp.Table {
	want := amqp.Table{}
	for name, value := range headers {
		if long, ok := value.(wiretest.Long); ok {
			value = int64(long)
		}
		want[name] = value
	}
	return want
}

// restored compares what the Go packages make of a delivery with what was published.
func (f foreign) restored(got *amqp.Delivery) error {
	want := message.FromDelivery(&amqp.Delivery{
		Headers: expected(f.Headers), ContentType: f.ContentType, ContentEncoding: f.ContentEncoding, CorrelationId: f.CorrelationId,
		ReplyTo: f.ReplyTo, Expiration: f.Expiration, MessageId: f.MessageId, Timestamp: f.Timestamp, Type: f.Type, UserId: f.UserId,
		AppId: f.AppId, Priority: f.Priority, RoutingKey: f.key, Body: f.Body,
	})
	have := message.FromBridge(got)
	have.Journey = message.Journey{}
	if !wiretest.Same(have, want) {
		return fmt.Errorf("restored as %.600v\nwant %.600v", fmt.Sprintf("%#v", have), fmt.Sprintf("%#v", want))
	}
	return nil
}

// sendEach publishes each message by each way, with confirms, and returns them by
// their new IDs.
func (b *bench) sendEach(t *testing.T, messages map[string]foreign) map[string]foreign {
	t.Helper()
	conn, err := wiretest.Dial(b.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	if err != nil {
		t.Fatal(err)
	}
	sent, confirms := map[string]foreign{}, map[string]*amqp.DeferredConfirmation{}
	for name, f := range messages {
		for way, delay := range ways {
			id := way + "/" + name
			f.MessageId = id
			f.Headers = maps.Clone(f.Headers)
			if f.Headers == nil {
				f.Headers = amqp.Table{}
			}
			f.Headers["x-delay"] = delay
			p := f.Publishing
			p.Headers = wiretest.Prepared(f.Headers)
			if confirms[id], err = ch.PublishWithDeferredConfirmWithContext(t.Context(), b.topology.EntryExchange(), f.key, true, false, p); err != nil {
				t.Fatalf("%s: %v", id, err)
			}
			sent[id] = f
		}
	}
	for id, confirm := range confirms {
		if ok, err := confirm.WaitContext(t.Context()); !ok || err != nil {
			t.Fatalf("%s: confirmed %v, %v", id, ok, err)
		}
	}
	return sent
}

// allUnchanged waits for messages and compares each with what was sent.
func (b *bench) allUnchanged(t *testing.T, box *mailbox, sent map[string]foreign) {
	t.Helper()
	for id, f := range sent {
		got := box.await(t, id, 1)
		way, _, _ := strings.Cut(id, "/")
		if path := pathOf(&got.Delivery); (path == "") != (way != "parked") {
			t.Errorf("%s: took the path %q", id, path)
		}
		if err := f.unchanged(way, &got.Delivery); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		if err := f.restored(&got.Delivery); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}

func userOf(t *testing.T, rawURL string) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	return u.User.Username()
}

// What went in comes out: each property and each type of header by itself, of a
// client that knows nothing of us, by each way.
func TestEachPropertyOfAForeignMessage(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, short(), servertest.ForTest(t))
	b.run(t, nil)
	box := b.newMailbox(t, queueName)
	b.allUnchanged(t, box, b.sendEach(t, foreigners(userOf(t, b.AMQPURL))))
}

// The same of messages that nobody has thought of.
func TestAnyForeignMessage(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, short(), servertest.ForTest(t))
	b.run(t, nil)
	box := b.newMailbox(t, queueName)
	const batches, each = 3, 100
	for range batches {
		seed := rand.IntN(math.MaxInt32)
		t.Logf("messages of seed %d", seed)
		messages := map[string]foreign{}
		for i := range each {
			m := wiretest.Message().Example(seed + i)
			headers, _ := wiretest.Finite(m.Headers).(amqp.Table)
			messages[strconv.Itoa(seed+i)] = foreign{amqp.Publishing{
				Headers: headers, ContentType: m.ContentType, ContentEncoding: m.ContentEncoding, CorrelationId: m.CorrelationID, ReplyTo: m.ReplyTo,
				Timestamp: m.Timestamp, Type: m.Type, AppId: m.AppID, Body: m.Body,
				DeliveryMode: byte(i % 3),
			}, m.RoutingKey}
		}
		b.allUnchanged(t, box, b.sendEach(t, messages))
	}
}
