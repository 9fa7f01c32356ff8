package redisbridge_test

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
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
		if got := redisbridge.SinceStamp(&amqp.Delivery{Headers: tc.headers}, tc.asked, tc.within, now); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}

// What waited in the inbox while no bridge ran is on time where the broker says since when,
// which this test says for it.
func TestOutageOfAllBridgesCostsNothingWhereTheBrokerStamps(t *testing.T) {
	t.Parallel()
	const delay, outage, within = time.Hour, 10 * time.Minute, time.Minute
	b := newBench(t, short())
	taken := time.Now().Add(-outage)
	b.publishEntry(t, amqp.Publishing{
		MessageId: "m", Headers: amqp.Table{"x-delay": delay.Milliseconds() + 1, message.HeaderBrokerTimestamp: taken.UnixMilli()},
	})
	b.publishEntry(t, amqp.Publishing{
		MessageId: "overdue", Headers: amqp.Table{"x-delay": int64(60_001), message.HeaderBrokerTimestamp: taken.UnixMilli()},
	})
	b.run(t, func(c *redisbridge.Config) { c.BrokerClockWithin = within })
	b.arrivals.awaitID(t, "overdue")
	var found redisbridge.MessageState
	until(t, "parked", func() (known bool) {
		var err error
		found, known, err = lookUp(b.park.Get(t.Context(), "m"))
		return err == nil && known
	})
	if want := time.UnixMilli(taken.UnixMilli()).Add(delay + time.Millisecond + within); !found.Due.Equal(want) {
		t.Errorf("due %v after it should be", found.Due.Sub(want))
	}
}
