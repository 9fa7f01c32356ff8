package wiretest

import (
	"math"
	"reflect"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"pgregory.net/rapid"

	"github.com/delaybridge/delaybridge/message"
)

// Value draws a value of every type that AMQP knows, nested included.
func Value(depth int) *rapid.Generator[any] {
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
			rapid.Custom(func(t *rapid.T) any { return Headers(depth-1).Draw(t, "table") }),
			rapid.Custom(func(t *rapid.T) any { return rapid.SliceOfN(Value(depth-1), 0, 4).Draw(t, "array") }))
	}
	return rapid.OneOf(kinds...)
}

// Headers draws a table of up to six entries.
func Headers(depth int) *rapid.Generator[amqp.Table] {
	return rapid.Custom(func(t *rapid.T) amqp.Table {
		return amqp.Table(rapid.MapOfN(rapid.StringN(0, 60, 200), Value(depth), 0, 6).Draw(t, "headers"))
	})
}

// Message draws a message with any properties; its ID is key or another one.
func Message() *rapid.Generator[message.Message] {
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
		if h := Headers(3).Draw(t, "headers"); len(h) > 0 {
			m.Headers = h
		}
		return m
	})
}

// Same is DeepEqual with NaN equal to itself, bit by bit, and nothing in a slice
// or table equal to none.
func Same(a, b any) bool { return reflect.DeepEqual(Plain(a), Plain(b)) }

// Plain returns a value that is compared, or printed, by what it holds: of floats
// the bits, and of instants the seconds, as AMQP has no more.
func Plain(v any) any {
	switch x := v.(type) {
	case message.Message:
		headers, _ := Plain(x.Headers).(amqp.Table)
		x.Headers, x.Body = headers, plainBytes(x.Body)
		return x
	case amqp.Table:
		plain := make(amqp.Table, len(x))
		for name, value := range x {
			plain[name] = Plain(value)
		}
		return plain
	case []any:
		plain := make([]any, len(x))
		for i, value := range x {
			plain[i] = Plain(value)
		}
		return plain
	case []byte:
		return plainBytes(x)
	case float32:
		return [1]uint32{math.Float32bits(x)}
	case float64:
		return [1]uint64{math.Float64bits(x)}
	case time.Time:
		return struct{ Unix int64 }{x.Unix()}
	}
	return v
}

func plainBytes(b []byte) []byte { return append([]byte{}, b...) }

// Finite replaces the floats that RabbitMQ refuses: not a number, and infinity.
func Finite(v any) any {
	switch x := v.(type) {
	case amqp.Table:
		for name, value := range x {
			x[name] = Finite(value)
		}
	case []any:
		for i, value := range x {
			x[i] = Finite(value)
		}
	case float32:
		if x != x || math.IsInf(float64(x), 0) {
			return float32(0)
		}
	case float64:
		if x != x || math.IsInf(x, 0) {
			return float64(0)
		}
	}
	return v
}
