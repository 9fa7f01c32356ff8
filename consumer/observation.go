package consumer

import (
	"time"

	"github.com/delaybridge/delaybridge/message"
)

// Outcome is how the consumer parted with a message.
type Outcome string

// The outcomes.
const (
	// Acknowledged: the handler has returned nil.
	Acknowledged Outcome = "acknowledged"
	// Quarantined: the broker has confirmed the message's copy in quarantine.
	Quarantined Outcome = "quarantined"
	// Returned: the message was left to the broker, which delivers it again,
	// because the consumer shuts down or has lost its channel.
	Returned Outcome = "returned"
)

// Observation is what Config.Observe is told of one delivery.
type Observation struct {
	Message message.Message
	Outcome Outcome
	// Attempts is how often the handler was called.
	Attempts int
	// Lateness is how long after its due time the message met its handler, by
	// this machine's clock: negative means early. It is 0 where the due time is
	// unknown because the publisher was a foreign client
	// (Message.Journey.Due.IsZero).
	Lateness time.Duration
	// Err is the handler's last error.
	Err error
}

func lateness(m *message.Message, now time.Time) time.Duration {
	if m.Journey.Due.IsZero() {
		return 0
	}
	return now.Sub(m.Journey.Due)
}
