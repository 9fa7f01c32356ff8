package producer

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/topology"
)

// routes are those of one entry.
type routes struct {
	ready, inbox *route
	tiers        map[time.Duration]*route
}

// defaultRoutes lead into the tiers themselves, unless the entry is tracked.
func defaultRoutes(t *topology.Topology) *routes {
	r := routesTo(t, "")
	if t.IsTracked("") {
		return r
	}
	for _, tier := range t.Tiers() {
		r.tiers[tier.TTL] = &route{exchange: tier.Name, path: message.PathTier(topology.TTLName(tier.TTL)), mandatory: true}
	}
	return r
}

// routesOf are those of an entry beside the default one. They lead into the tiers
// through its exchange, since by that a tier's messages find their ready exchange.
func routesOf(t *topology.Topology, entry string) *routes {
	r := routesTo(t, entry)
	if t.IsTracked(entry) {
		return r
	}
	for _, tier := range t.Tiers() {
		r.tiers[tier.TTL] = &route{
			exchange: t.EntryExchangeOf(entry), path: message.PathTier(topology.TTLName(tier.TTL)), mandatory: true,
			delayMS: tier.TTL.Milliseconds(),
		}
	}
	return r
}

func routesTo(t *topology.Topology, entry string) *routes {
	// These return a message only where their alternate leads nowhere; without
	// that it would be confirmed and dropped.
	return &routes{
		ready: &route{exchange: t.ReadyExchangeOf(entry), path: message.PathDirect, mandatory: true},
		inbox: &route{exchange: t.EntryExchangeOf(entry), path: message.PathInbox, mandatory: true},
		tiers: map[time.Duration]*route{},
	}
}

// route is where messages of one path are sent.
type route struct {
	exchange  string
	path      message.Path
	mandatory bool
	delayMS   int64       // header x-delay, where the exchange goes by it
	known     atomic.Bool // the exchange was there when last looked for
	requests  sync.Pool   // of *request, for use again
}
