package upkeep

import (
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/topology"
)

// Dates tells since when messages are in the unrouted and the quarantine queue. No instant that it tells is
// before the one at which that began, by the clock of who has noted it down.
type Dates struct {
	Topology *topology.Topology
	// BrokerClockWithin says that the broker stamps each message, and by how much its clock may be wrong;
	// 0 says that it does not.
	BrokerClockWithin time.Duration
}

// Since returns the instant at which the broker has dead-lettered the message, or a consumer or a bridge has
// quarantined it, or the broker has stamped it. It returns false where none of these is certain.
func (s Dates) Since(queue string, d *amqp.Delivery) (time.Time, bool) {
	t := s.Topology
	_, dead := d.Headers["x-death"]
	stamp, stamped := d.Headers[wire.HeaderBrokerTimestamp].(int64)
	switch {
	case !dead && stamped && s.BrokerClockWithin > 0:
		return time.UnixMilli(stamp).Add(s.BrokerClockWithin), true
	case d.Exchange == "" || strings.HasPrefix(d.Exchange, t.EntryExchange()):
		return time.Time{}, false // anybody publishes there, with any headers
	case dead:
		from, at, known := lastDeath(d.Headers)
		if queue == t.Quarantine() && s.waits(from) {
			return time.Time{}, false // of a copy: these do not lead to quarantine
		}
		return at, known
	}
	text, _ := d.Headers[wire.HeaderQuarantined].(string)
	at, err := time.Parse(time.RFC3339, text)
	return at.Add(time.Second), err == nil && queue == t.Quarantine()
}

// waits reports whether a queue is a tier or a lane.
func (s Dates) waits(queue string) bool {
	_, tier := s.Topology.TierOf(queue)
	return tier || strings.HasPrefix(queue, s.Topology.Prefix()+".lane.")
}

// lastDeath returns from which queue the broker has dead-lettered a message last, and when at the latest: it
// notes down whole seconds. It notes down only the first time for each queue and reason. So where one of them is counted
// twice, the last time is not known.
func lastDeath(headers amqp.Table) (queue string, at time.Time, known bool) {
	deaths, _ := headers["x-death"].([]any)
	for _, entry := range deaths {
		death, _ := entry.(amqp.Table)
		when, dated := death["time"].(time.Time)
		if count, _ := death["count"].(int64); count != 1 || !dated {
			return "", time.Time{}, false
		}
		if when.After(at) {
			queue, _ = death["queue"].(string)
			at = when
		}
	}
	return queue, at.Add(time.Second), len(deaths) > 0
}
