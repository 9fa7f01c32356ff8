package message

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/wire"
)

// requests are the headers by which a publisher says when. The first that is there counts: an
// instant before a delay, since that does not depend on when the message is read, and our own
// names before RabbitMQ's.
var requests = [...]struct {
	header   string
	absolute bool
}{
	{wire.HeaderDeliverAt, true},
	{wire.HeaderDeliveryTime, true},
	{wire.HeaderDelay, false},
	{wire.HeaderDeliveryDelay, false},
}

// WhenFromHeaders reads when a foreign client wants its message delivered, from the first of
// x-deliver-at, x-opt-delivery-time, x-delay and x-opt-delivery-delay that is there and not void.
// Every integer width, a float or decimal (cut off) and a number in a string will do, and for an
// instant a timestamp; a negative number, zero and no header at all mean at once. The error
// says what is wrong with a value that is no number or that lies more than MaxDelay
// after now. docs/wire-contract.md has each value.
func WhenFromHeaders(headers amqp.Table, now time.Time) (When, error) {
	for _, r := range requests {
		value := headers[r.header]
		if value == nil {
			continue
		}
		read := delayOf
		if r.absolute {
			read = instantOf
		}
		w, err := read(value, now)
		if err != nil {
			return When{}, fmt.Errorf("header %s: %w", r.header, err)
		}
		return w, nil
	}
	return When{}, nil
}

func delayOf(value any, _ time.Time) (When, error) {
	ms, err := milliseconds(value)
	if err != nil {
		return When{}, err
	}
	if ms > MaxDelay.Milliseconds() { // perhaps more than a Duration holds
		return When{}, fmt.Errorf("%d ms is longer than the longest delay, %v (10 years)", ms, MaxDelay)
	}
	return When{ms: max(ms, 0)}, nil
}

func instantOf(value any, now time.Time) (When, error) {
	remedy := ""
	if t, ok := value.(time.Time); ok {
		value = t.Unix() * 1000
		if t.Unix() > math.MaxInt64/1000 {
			value = int64(math.MaxInt64)
		}
		remedy = "; a timestamp is in whole seconds"
	}
	ms, err := milliseconds(value)
	if err != nil {
		return When{}, err
	}
	if remedy == "" && ms > now.Add(-MaxDelay).UnixMicro() {
		remedy = "; it takes Unix milliseconds, and this looks like microseconds"
	}
	w := When{absolute: true, ms: max(ms, 0)}
	if err := w.Validate(now); err != nil {
		return When{}, fmt.Errorf("%w%s", err, remedy)
	}
	return w, nil
}

func milliseconds(value any) (int64, error) {
	switch v := value.(type) {
	case int8:
		return int64(v), nil
	case byte:
		return int64(v), nil
	case int16:
		return int64(v), nil
	case uint16:
		return int64(v), nil
	case int32:
		return int64(v), nil
	case uint32:
		return int64(v), nil
	case int64:
		return v, nil
	case float32:
		return truncated(float64(v))
	case float64:
		return truncated(v)
	case amqp.Decimal:
		return truncated(float64(v.Value) / math.Pow10(int(v.Scale)))
	case string:
		text := strings.TrimSpace(v)
		if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
			return ms, nil
		}
		ms, err := strconv.ParseFloat(text, 64)
		// ParseFloat also knows NaN, infinity, hexadecimal numbers and underscores.
		if err != nil && !errors.Is(err, strconv.ErrRange) || strings.ContainsAny(text, "nNxX_") {
			return 0, fmt.Errorf("%.40q is not a number of milliseconds", v)
		}
		return truncated(max(-math.MaxFloat64, min(ms, math.MaxFloat64)))
	}
	return 0, fmt.Errorf("%s is not a number of milliseconds", typeName(value))
}

// truncated cuts a number off to whole milliseconds. What an int64 cannot hold is
// beyond every limit, in its direction.
func truncated(ms float64) (int64, error) {
	switch {
	case math.IsNaN(ms), math.IsInf(ms, 0):
		return 0, fmt.Errorf("%v is not a number of milliseconds", ms)
	case ms >= math.MaxInt64:
		return math.MaxInt64, nil
	case ms <= math.MinInt64:
		return math.MinInt64, nil
	}
	return int64(ms), nil
}

// typeName says what a value is that is no number, to people who need not know Go.
func typeName(value any) string {
	switch value.(type) {
	case bool:
		return "a boolean"
	case []byte:
		return "a byte array"
	case time.Time:
		return "a timestamp"
	case []any:
		return "an array"
	case amqp.Table:
		return "a table"
	}
	return fmt.Sprintf("a value of type %T", value)
}
