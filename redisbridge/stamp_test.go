package redisbridge_test

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/redisbridge"
)

// What waited in the inbox while no bridge ran is on time where the broker says since when,
// which this test says for it.
func TestOutageOfAllBridgesCostsNothingWhereTheBrokerStamps(t *testing.T) {
	t.Parallel()
	const delay, outage, within = time.Hour, 10 * time.Minute, time.Minute
	b := newBench(t, short())
	taken := time.Now().Add(-outage)
	b.publishEntry(t, amqp.Publishing{
		MessageId: "m", Headers: amqp.Table{"x-delay": delay.Milliseconds() + 1, wire.HeaderBrokerTimestamp: taken.UnixMilli()},
	})
	b.publishEntry(t, amqp.Publishing{
		MessageId: "overdue", Headers: amqp.Table{"x-delay": int64(60_001), wire.HeaderBrokerTimestamp: taken.UnixMilli()},
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
