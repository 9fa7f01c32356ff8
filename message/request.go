package message

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// WhenFromHeaders reads when a foreign client wants its message delivered, from
// x-deliver-at or, where that is absent, x-delay. Every integer width, a float
// (cut off) and a number in a string will do; a negative number, zero and no
// header at all mean at once. The error says what is wrong with a value that is
// no number or that lies more than MaxDelay after now.
func WhenFromHeaders(headers amqp.Table, now time.Time) (When, error) {
	name := HeaderDeliverAt
	value, ok := headers[name]
	if !ok {
		name = HeaderDelay
		value = headers[name]
	}
	if value == nil {
		return When{}, nil
	}
	ms, err := milliseconds(value)
	if err != nil {
		return When{}, fmt.Errorf("header %s: %w", name, err)
	}
	w := When{absolute: name == HeaderDeliverAt, ms: max(ms, 0)}
	if err := w.Validate(now); err != nil {
		return When{}, fmt.Errorf("header %s: %w", name, err)
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
	case string:
		text := strings.TrimSpace(v)
		if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
			return ms, nil
		}
		ms, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, fmt.Errorf("%.40q is not a number of milliseconds", v)
		}
		return truncated(ms)
	}
	return 0, fmt.Errorf("a value of type %T is not a number of milliseconds", value)
}

func truncated(ms float64) (int64, error) {
	if math.IsNaN(ms) || math.Abs(ms) >= 1<<53 {
		return 0, fmt.Errorf("%v is not a number of milliseconds", ms)
	}
	return int64(ms), nil
}
