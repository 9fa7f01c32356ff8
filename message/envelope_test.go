package message_test

import (
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"pgregory.net/rapid"

	"github.com/delaybridge/delaybridge/message"
)

// headerValue draws a value of every type that AMQP knows, nested included.
func headerValue(depth int) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Int8().AsAny(), rapid.Byte().AsAny(),
		rapid.Int16().AsAny(), rapid.Uint16().AsAny(), rapid.Int32().AsAny(), rapid.Uint32().AsAny(),
		rapid.Int64().AsAny(), rapid.Float32().AsAny(), rapid.Float64().AsAny(),
		rapid.String().AsAny(), rapid.SliceOf(rapid.Byte()).AsAny(),
		rapid.Custom(func(t *rapid.T) any {
			return amqp.Decimal{Scale: rapid.Byte().Draw(t, "scale"), Value: rapid.Int32().Draw(t, "value")}
		}),
		rapid.Custom(func(t *rapid.T) any { return time.Unix(rapid.Int64Range(0, 1<<40).Draw(t, "seconds"), 0) }),
	}
	if depth > 0 {
		kinds = append(kinds,
			rapid.Custom(func(t *rapid.T) any { return headers(depth-1).Draw(t, "table") }),
			rapid.Custom(func(t *rapid.T) any { return rapid.SliceOfN(headerValue(depth-1), 0, 4).Draw(t, "array") }))
	}
	return rapid.OneOf(kinds...)
}

func headers(depth int) *rapid.Generator[amqp.Table] {
	return rapid.Custom(func(t *rapid.T) amqp.Table {
		return amqp.Table(rapid.MapOfN(rapid.StringN(0, 60, 200), headerValue(depth), 0, 6).Draw(t, "headers"))
	})
}

func anyMessage() *rapid.Generator[message.Message] {
	text := rapid.StringN(0, 60, 255)
	return rapid.Custom(func(t *rapid.T) message.Message {
		m := message.Message{
			ID: rapid.SampledFrom([]string{"key", "another"}).Draw(t, "ID"), RoutingKey: text.Draw(t, "routing key"), Body: rapid.SliceOf(rapid.Byte()).Draw(t, "body"),
			ContentType: text.Draw(t, "content type"), ContentEncoding: text.Draw(t, "content encoding"),
			CorrelationID: text.Draw(t, "correlation ID"), ReplyTo: text.Draw(t, "reply to"),
			Type: text.Draw(t, "type"), AppID: text.Draw(t, "app ID"),
			Expiration: text.Draw(t, "expiration"), UserID: text.Draw(t, "user ID"),
			Priority: rapid.Byte().Draw(t, "priority"), Entry: text.Draw(t, "entry"),
		}
		if rapid.Bool().Draw(t, "has timestamp") {
			m.Timestamp = time.Unix(rapid.Int64Range(1, 1<<40).Draw(t, "timestamp"), 0)
		}
		if h := headers(3).Draw(t, "headers"); len(h) > 0 {
			m.Headers = h
		}
		return m
	})
}

func TestEnvelopeKeepsEverything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := anyMessage().Draw(t, "message")
		got, err := message.DecodeEnvelope(message.AppendEnvelope(nil, &want, "key"), "key")
		if err != nil {
			t.Fatal(err)
		}
		if len(want.Body) == 0 {
			want.Body, got.Body = nil, nil
		}
		if !same(got, want) {
			t.Fatalf("got  %#v\nwant %#v", got, want)
		}
	})
}

// same is DeepEqual with NaN equal to itself, bit by bit.
func same(a, b any) bool {
	return reflect.DeepEqual(withoutNaN(reflect.ValueOf(a)), withoutNaN(reflect.ValueOf(b)))
}

func withoutNaN(v reflect.Value) any {
	switch x := v.Interface().(type) {
	case message.Message:
		x.Headers, _ = withoutNaN(reflect.ValueOf(x.Headers)).(amqp.Table)
		return x
	case amqp.Table:
		plain := amqp.Table{}
		for name, value := range x {
			if value != nil {
				value = withoutNaN(reflect.ValueOf(value))
			}
			plain[name] = value
		}
		return plain
	case []any:
		plain := make([]any, len(x))
		for i, value := range x {
			if value != nil {
				plain[i] = withoutNaN(reflect.ValueOf(value))
			}
		}
		return plain
	case float32:
		return [1]uint32{math.Float32bits(x)}
	case float64:
		return [1]uint64{math.Float64bits(x)}
	}
	return v.Interface()
}

func TestEnvelopeWidensInt(t *testing.T) {
	t.Parallel()
	m := message.Message{Headers: amqp.Table{"n": 1 << 40}}
	got, err := message.DecodeEnvelope(message.AppendEnvelope(nil, &m, "key"), "key")
	if err != nil || got.Headers["n"] != int64(1<<40) {
		t.Fatalf("got %#v, %v; want int64 2^40", got.Headers["n"], err)
	}
}

// What an earlier release has parked is read as it was, byte by byte.
func TestEnvelopeOfAnEarlierRelease(t *testing.T) {
	t.Parallel()
	stored := "\x01\x08\x80\x0corder.unpaid" + "\x00\x00\x00\x00\x12\x34\x56\x78" + "\x03o-1" + "body"
	want := message.Message{ID: "o-1", RoutingKey: "order.unpaid", Timestamp: time.Unix(0x12345678, 0), Body: []byte("body")}
	got, err := message.DecodeEnvelope([]byte(stored), "key")
	if err != nil || !same(got, want) {
		t.Errorf("got  %#v (%v)\nwant %#v", got, err, want)
	}
	if again := message.AppendEnvelope(nil, &want, "key"); string(again) != stored {
		t.Errorf("a message of the default entry is written as %q, want %q", again, stored)
	}
	want.Entry = "orders"
	stored = "\x01\x18\x80\x0corder.unpaid" + "\x00\x00\x00\x00\x12\x34\x56\x78" + "\x03o-1" + "\x06orders" + "body"
	if got := message.AppendEnvelope(nil, &want, "key"); string(got) != stored {
		t.Errorf("with an entry it is written as %q, want %q", got, stored)
	}
}

func TestEnvelopeFromAnotherRelease(t *testing.T) {
	t.Parallel()
	for name, b := range map[string][]byte{
		"nothing":            {},
		"a later version":    {2, 0, 0, 0},
		"a later property":   {1, 0x80, 0, 0},
		"a cut routing key":  {1, 0, 0, 9, 'a'},
		"a table too long":   {1, 0, 1, 0, 0xff, 0xff, 0xff, 0xff},
		"an unknown tag":     {1, 0, 1, 0, 0, 0, 0, 3, 1, 'a', '?'},
		"a cut nested table": {1, 0, 1, 0, 0, 0, 0, 7, 1, 'a', 'F', 0, 0, 0, 9},
	} {
		if _, err := message.DecodeEnvelope(b, "key"); !errors.Is(err, message.ErrEnvelope) {
			t.Errorf("%s: got %v, want ErrEnvelope", name, err)
		}
	}
}

func FuzzDecodeEnvelope(f *testing.F) {
	m := message.Message{RoutingKey: "order.unpaid", Type: "t", Body: []byte("b"), Headers: amqp.Table{
		"a": []any{int8(1), "s", nil, amqp.Table{"d": amqp.Decimal{Scale: 2, Value: 3}}},
	}}
	f.Add(message.AppendEnvelope(nil, &m, "key"))
	m.ID, m.Entry = "o-1", "orders"
	f.Add(message.AppendEnvelope(nil, &m, "key"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := message.DecodeEnvelope(b, "key")
		if err != nil {
			return
		}
		again, err := message.DecodeEnvelope(message.AppendEnvelope(nil, &m, "key"), "key")
		if err != nil || !same(again, m) {
			t.Fatalf("second decoding differs: %#v, %#v, %v", m, again, err)
		}
	})
}
