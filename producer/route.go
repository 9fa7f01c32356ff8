package producer

import (
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/topology"
)

// routes are those of one entry.
type routes struct {
	ready, inbox *route
	tiers        map[time.Duration]*route
}

// defaultRoutes lead into the tiers themselves, unless the entry is tracked.
func defaultRoutes(t *topology.Topology, u *broker.Unanswered) *routes {
	r := routesTo(t, "", u)
	if t.IsTracked("") {
		return r
	}
	for _, tier := range t.Tiers() {
		r.tiers[tier.TTL] = &route{unanswered: u, exchange: tier.Name, path: message.Path(wire.TierPath(wire.TTLName(tier.TTL))), mandatory: true}
	}
	return r
}

// routesOf are those of an entry beside the default one. They lead into the tiers
// through its exchange, since by that a tier's messages find their ready exchange.
func routesOf(t *topology.Topology, entry string, u *broker.Unanswered) *routes {
	r := routesTo(t, entry, u)
	if t.IsTracked(entry) {
		return r
	}
	for _, tier := range t.Tiers() {
		r.tiers[tier.TTL] = &route{
			unanswered: u, exchange: t.EntryExchangeOf(entry), path: message.Path(wire.TierPath(wire.TTLName(tier.TTL))), mandatory: true,
			delayMS: tier.TTL.Milliseconds(),
		}
	}
	return r
}

func routesTo(t *topology.Topology, entry string, u *broker.Unanswered) *routes {
	// These return a message only where their alternate leads nowhere; without
	// that it would be confirmed and dropped.
	return &routes{
		ready: &route{unanswered: u, exchange: t.ReadyExchangeOf(entry), path: message.PathDirect, mandatory: true},
		inbox: &route{unanswered: u, exchange: t.EntryExchangeOf(entry), path: message.PathInbox, mandatory: true},
		tiers: map[time.Duration]*route{},
	}
}

// route is where messages of one path are sent.
type route struct {
	unanswered *broker.Unanswered

	exchange  string
	path      message.Path
	mandatory bool
	delayMS   int64       // header x-delay, where the exchange goes by it
	known     atomic.Bool // the exchange was there when last looked for
	requests  sync.Pool   // of *request, for use again
}

// target is where messages with this routing key wait for the same queue: a tier and the
// inbox are one queue, and a ready exchange leads to any.
func (r *route) target(key string) (t broker.Target, most int) {
	if r.path == message.PathDirect {
		return broker.Target{Exchange: r.exchange, Key: key}, broker.QueueBound
	}
	return broker.Target{Exchange: r.exchange, Key: r.keyOfTier()}, math.MaxInt
}

// keyOfTier tells the tiers behind an entry exchange apart.
func (r *route) keyOfTier() string {
	if r.delayMS == 0 {
		return ""
	}
	return strconv.FormatInt(r.delayMS, 10)
}
