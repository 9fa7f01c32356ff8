package message_test

import (
	"math"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/message"
)

func TestWhenFromHeaders(t *testing.T) {
	t.Parallel()
	delay := func(ms int64) message.When { return message.After(time.Duration(ms) * time.Millisecond) }
	at := func(ms int64) message.When { return message.At(time.UnixMilli(ms)) }
	for name, c := range map[string]struct {
		headers amqp.Table
		want    message.When
	}{
		"nothing":                {nil, message.When{}},
		"other headers":          {amqp.Table{"delay": int64(5)}, message.When{}},
		"no value":               {amqp.Table{"x-delay": nil}, message.When{}},
		"int8":                   {amqp.Table{"x-delay": int8(100)}, delay(100)},
		"byte":                   {amqp.Table{"x-delay": byte(200)}, delay(200)},
		"int16":                  {amqp.Table{"x-delay": int16(5000)}, delay(5000)},
		"uint16":                 {amqp.Table{"x-delay": uint16(60000)}, delay(60000)},
		"int32":                  {amqp.Table{"x-delay": int32(5000)}, delay(5000)},
		"uint32":                 {amqp.Table{"x-delay": uint32(1<<32 - 1)}, delay(1<<32 - 1)},
		"int64":                  {amqp.Table{"x-delay": int64(1 << 33)}, delay(1 << 33)},
		"float32":                {amqp.Table{"x-delay": float32(1.9)}, delay(1)},
		"float64":                {amqp.Table{"x-delay": 5000.99}, delay(5000)},
		"string":                 {amqp.Table{"x-delay": "5000"}, delay(5000)},
		"string with blanks":     {amqp.Table{"x-delay": " 5000\n"}, delay(5000)},
		"float in a string":      {amqp.Table{"x-delay": "5000.9"}, delay(5000)},
		"exponent in a string":   {amqp.Table{"x-delay": "5e3"}, delay(5000)},
		"zero":                   {amqp.Table{"x-delay": int32(0)}, message.When{}},
		"negative":               {amqp.Table{"x-delay": int64(-5000)}, message.When{}},
		"negative in a string":   {amqp.Table{"x-delay": "-0.5"}, message.When{}},
		"longest":                {amqp.Table{"x-delay": message.MaxDelay.Milliseconds()}, message.After(message.MaxDelay)},
		"deliver at":             {amqp.Table{"x-deliver-at": int64(1_900_000_000_123)}, at(1_900_000_000_123)},
		"deliver at, in a float": {amqp.Table{"x-deliver-at": 1.9e12}, at(1_900_000_000_000)},
		"deliver at, long ago":   {amqp.Table{"x-deliver-at": int32(5)}, at(5)},
		"both":                   {amqp.Table{"x-deliver-at": int64(7), "x-delay": int64(8)}, at(7)},
		"both, one without":      {amqp.Table{"x-deliver-at": nil, "x-delay": int64(8)}, message.When{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := message.WhenFromHeaders(c.headers, instant())
			if err != nil || got != c.want {
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

func TestWhenFromUnusableHeaders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		header string
		value  any
		want   string
	}{
		"words":             {"x-delay", "5 seconds", `header x-delay: "5 seconds" is not a number`},
		"empty":             {"x-delay", "", `"" is not a number`},
		"long words":        {"x-delay", strings.Repeat("y", 9999), strings.Repeat("y", 40) + `" is not a number`},
		"boolean":           {"x-delay", true, "type bool"},
		"bytes":             {"x-delay", []byte("5"), "type []uint8"},
		"table":             {"x-delay", amqp.Table{}, "type amqp091.Table"},
		"not a number":      {"x-delay", math.NaN(), "NaN is not a number"},
		"infinite":          {"x-delay", math.Inf(1), "is not a number"},
		"infinite, in text": {"x-delay", "1e999", "is not a number"},
		"beyond precision":  {"x-delay", float64(1 << 53), "is not a number"},
		"too long":          {"x-delay", message.MaxDelay.Milliseconds() + 1, "longer than the longest"},
		"too far":           {"x-deliver-at", int64(math.MaxInt64), "header x-deliver-at: "},
		"instant in words":  {"x-deliver-at", "2030-01-01T00:00:00Z", "header x-deliver-at: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := message.WhenFromHeaders(amqp.Table{c.header: c.value}, instant())
			if err == nil || !strings.Contains(err.Error(), c.want) || got != (message.When{}) {
				t.Errorf("got %+v, %v; want an error that says %q", got, err, c.want)
			}
			if err != nil && len(err.Error()) > 300 {
				t.Errorf("the error is %d bytes long", len(err.Error()))
			}
		})
	}
}

func FuzzWhenFromHeaders(f *testing.F) {
	f.Add("5000", int64(0), 0.5)
	f.Add(" -1e3", int64(math.MinInt64), math.Inf(-1))
	f.Fuzz(func(t *testing.T, text string, whole int64, float float64) {
		for _, value := range []any{text, whole, float, float32(float), int32(whole)} {
			for _, name := range []string{message.HeaderDelay, message.HeaderDeliverAt} {
				w, err := message.WhenFromHeaders(amqp.Table{name: value}, instant())
				if err != nil {
					continue
				}
				if err := w.Validate(instant()); err != nil {
					t.Errorf("%s %v was taken for what is not valid: %v", name, value, err)
				}
			}
		}
	})
}
