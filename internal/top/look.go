package top

import (
	"errors"
	"time"

	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// Source is where something is known from.
type Source int

// The sources.
const (
	Redis Source = iota
	RabbitMQ
	Management
)

// String returns Redis, RabbitMQ or management API.
func (s Source) String() string {
	return [...]string{"Redis", "RabbitMQ", "management API"}[s]
}

// ErrNoManagement is the answer of a management API that is not to be asked.
var ErrNoManagement = errors.New("management-url is empty")

// Look is the answer of one source, or why there is none.
type Look struct {
	Of Source
	// Asked and At are when it was asked for and heard, by this machine's clock.
	Asked, At time.Time
	Err       error

	// Of Redis.
	Stats redisbridge.Stats
	// Of RabbitMQ.
	Counts topology.Counts
	// Of the management API.
	Flows     Flows
	Overrides []topology.Drift
}

// Flow is what goes into queues, and what is there.
type Flow struct {
	// In is how many messages a second publishers and bridges have sent there, and Change
	// by how many a second Messages has grown, both of some five seconds.
	In, Change float64
	// Messages is how many are there. NotTaken of them are due, and not taken by the queue
	// that they lead to.
	Messages, NotTaken int
}

// Flows are those of a topology, as the management API knows them: up to ten seconds late.
type Flows struct {
	// Tiers are by TTL, as are Lanes, those of all shards together. Both include those
	// of the entries beside the default one.
	Tiers, Lanes map[time.Duration]Flow
	Inbox        Flow
	// Counted is false where the broker is set to count no messages (rates_mode): then In
	// is not known.
	Counted bool
}
