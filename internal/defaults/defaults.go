// Package defaults has what counts where a setting is left out, for packages and for the help of commands
// alike.
package defaults

import "time"

// Of redisbridge.Config.
const (
	Lease              = 5 * time.Second
	MaxInFlight        = 2048
	BridgeDrainTimeout = 20 * time.Second
	ShowEvery          = 10 * time.Second
)

// Of redisbridge.ParkConfig.
const (
	Remember   = 10 * time.Minute
	Tombstones = 24 * time.Hour
)

// Of consumer.Config.
const (
	Prefetch             = 20
	ConsumerDrainTimeout = 30 * time.Second
	// ConsumerTimeout is that of RabbitMQ.
	ConsumerTimeout = 30 * time.Minute
)

// Of consumer.Retry, of a consumer with a Delayer.
const (
	RetryBase   = time.Second
	RetryFactor = 2.0
	RetryCap    = time.Hour
	RetryJitter = 0.5
	// RetryAttempts span at least a day by the others, whatever the jitter.
	RetryAttempts = 60
)
