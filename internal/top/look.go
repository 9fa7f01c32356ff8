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
	Flows     topology.Flows
	Overrides []topology.Drift
}
