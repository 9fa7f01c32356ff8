package format_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"pgregory.net/rapid"

	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/internal/wiretest"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store/format"
)

func TestEnvelopeKeepsEverything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, keepsEverything)
}

// FuzzEnvelope is the same, led by what the code has not yet done.
func FuzzEnvelope(f *testing.F) { f.Fuzz(rapid.MakeFuzz(keepsEverything)) }

func keepsEverything(t *rapid.T) {
	want := wiretest.Message().Draw(t, "message")
	got, err := format.DecodeEnvelope(format.AppendEnvelope(nil, &want, "key"), "key")
	if err != nil {
		t.Fatal(err)
	}
	if !wiretest.Same(got, want) {
		t.Fatalf("got  %#v\nwant %#v", got, want)
	}
}

// TableBytes counts what an envelope without anything else has of headers.
func TestTableBytes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := message.Message{ID: "key", Headers: wiretest.Headers(3).Draw(t, "headers")}
		m.Headers["int"] = 1
		if got, want := wire.TableBytes(m.Headers), len(format.AppendEnvelope(nil, &m, "key"))-4; got != want {
			t.Fatalf("got %d, want %d for %#v", got, want, m.Headers)
		}
	})
}

func TestEnvelopeWidensInt(t *testing.T) {
	t.Parallel()
	m := message.Message{Headers: amqp.Table{"n": 1 << 40}}
	got, err := format.DecodeEnvelope(format.AppendEnvelope(nil, &m, "key"), "key")
	if err != nil || got.Headers["n"] != int64(1<<40) {
		t.Fatalf("got %#v, %v; want int64 2^40", got.Headers["n"], err)
	}
}

// What an earlier release has parked is read as it was, byte by byte.
func TestEnvelopeOfAnEarlierRelease(t *testing.T) {
	t.Parallel()
	stored := "\x01\x08\x80\x0corder.unpaid" + "\x00\x00\x00\x00\x12\x34\x56\x78" + "\x03o-1" + "body"
	want := message.Message{ID: "o-1", RoutingKey: "order.unpaid", Timestamp: time.Unix(0x12345678, 0), Body: []byte("body")}
	got, err := format.DecodeEnvelope([]byte(stored), "key")
	if err != nil || !wiretest.Same(got, want) {
		t.Errorf("got  %#v (%v)\nwant %#v", got, err, want)
	}
	if again := format.AppendEnvelope(nil, &want, "key"); string(again) != stored {
		t.Errorf("a message of the default entry is written as %q, want %q", again, stored)
	}
	want.Entry = "orders"
	stored = "\x01\x18\x80\x0corder.unpaid" + "\x00\x00\x00\x00\x12\x34\x56\x78" + "\x03o-1" + "\x06orders" + "body"
	if got := format.AppendEnvelope(nil, &want, "key"); string(got) != stored {
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
		if _, err := format.DecodeEnvelope(b, "key"); !errors.Is(err, wire.ErrEnvelope) {
			t.Errorf("%s: got %v, want ErrEnvelope", name, err)
		}
	}
}

func FuzzDecodeEnvelope(f *testing.F) {
	m := message.Message{RoutingKey: "order.unpaid", Type: "t", Body: []byte("b"), Headers: amqp.Table{
		"a": []any{int8(1), "s", nil, amqp.Table{"d": amqp.Decimal{Scale: 2, Value: 3}}},
	}}
	f.Add(format.AppendEnvelope(nil, &m, "key"))
	m.ID, m.Entry = "o-1", "orders"
	f.Add(format.AppendEnvelope(nil, &m, "key"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := format.DecodeEnvelope(b, "key")
		if err != nil {
			return
		}
		again, err := format.DecodeEnvelope(format.AppendEnvelope(nil, &m, "key"), "key")
		if err != nil || !wiretest.Same(again, m) {
			t.Fatalf("second decoding differs: %#v, %#v, %v", m, again, err)
		}
	})
}

// What comes before the headers can be read without the rest.
func TestPeekEnvelope(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := wiretest.Message().Draw(t, "message")
		stored := format.AppendEnvelope(nil, &want, "key")
		got, err := format.PeekEnvelope(stored[:min(len(stored), format.PeekBytes)], "key")
		if err != nil {
			t.Fatal(err)
		}
		want.Headers, want.Body = nil, nil
		if !wiretest.Same(got, want) {
			t.Fatalf("got  %#v\nwant %#v", got, want)
		}
	})
	long := strings.Repeat("x", 255)
	longest := message.Message{
		ID: long, Entry: long, RoutingKey: long, ContentType: long, ContentEncoding: long, CorrelationID: long, ReplyTo: long,
		Type: long, AppID: long, Expiration: long, UserID: long, Timestamp: time.Unix(1, 0), Priority: 1,
	}
	if n := len(format.AppendEnvelope(nil, &longest, "key")); n != format.PeekBytes {
		t.Errorf("an envelope without headers and body has %d bytes, PeekBytes is %d", n, format.PeekBytes)
	}
}
