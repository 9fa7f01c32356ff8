package intake_test

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge/internal/intake"
)

func TestDelayBeginsAtTheStampOrLater(t *testing.T) {
	t.Parallel()
	const within = 500 * time.Millisecond
	now := time.UnixMilli(1_800_000_000_000)
	at := func(d time.Duration) int64 { return now.Add(d).UnixMilli() }
	hour := message.After(time.Hour)
	for name, tc := range map[string]struct {
		headers amqp.Table
		asked   message.When
		within  time.Duration
		want    message.When
	}{
		"waited a minute": {
			amqp.Table{"timestamp_in_ms": at(-time.Minute)}, hour, within, message.At(now.Add(time.Hour - time.Minute + within)),
		},
		"waited for longer than its delay": {
			amqp.Table{"timestamp_in_ms": at(-2 * time.Hour)}, hour, within, message.At(now.Add(within - time.Hour)),
		},
		"fresh":                   {amqp.Table{"timestamp_in_ms": at(-100 * time.Millisecond)}, hour, within, hour},
		"by a clock that is fast": {amqp.Table{"timestamp_in_ms": at(time.Minute)}, hour, within, hour},
		"nobody vouches for it":   {amqp.Table{"timestamp_in_ms": at(-time.Minute)}, hour, 0, hour},
		"no stamp":                {amqp.Table{}, hour, within, hour},
		"no number":               {amqp.Table{"timestamp_in_ms": "1"}, hour, within, hour},
		"an instant":              {amqp.Table{"timestamp_in_ms": at(-time.Minute)}, message.At(now), within, message.At(now)},
		"at once":                 {amqp.Table{"timestamp_in_ms": at(-time.Minute)}, message.When{}, within, message.When{}},
		"dead-lettered meanwhile": {amqp.Table{"timestamp_in_ms": at(-time.Minute), "x-death": []any{}}, hour, within, hour},
	} {
		if got := intake.SinceStamp(&amqp.Delivery{Headers: tc.headers}, tc.asked, tc.within, now); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}
