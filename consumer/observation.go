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
	// Duplicate: acknowledged without a call of the handler, because Config.Ledger
	// knows that a message with this ID was handled.
	Duplicate Outcome = "duplicate"
	// Delayed: Config.Delayer has the message, which comes back after its pause.
	Delayed Outcome = "delayed"
	// Quarantined: the broker has confirmed the message's copy in quarantine.
	Quarantined Outcome = "quarantined"
	// Dropped: the message was cancelled or rescheduled on its way, and acknowledged
	// without having been handled.
	Dropped Outcome = "dropped"
	// Returned: the message was left to the broker, which delivers it again,
	// because the consumer shuts down, has lost its channel, or has held the message for as
	// long as Config.ConsumerTimeout allows.
	Returned Outcome = "returned"
)

// Observation is what Config.Observe is told of one delivery.
type Observation struct {
	Message message.Message
	Outcome Outcome
	// Attempts is how often the message was handled in this queue, this delivery
	// included.
	Attempts int
	// Lateness is how long after its due time the message met its handler, by
	// this machine's clock: negative means early. It is 0 where the due time is
	// unknown because the publisher was a foreign client
	// (Message.Journey.Due.IsZero).
	Lateness time.Duration
	// Arrival says of a Dropped message why; otherwise it is the zero value.
	Arrival message.Arrival
	// Err is the handler's last error.
	Err error
	// RetryAt is when a Delayed message comes back, by this machine's clock; otherwise it
	// is zero.
	RetryAt time.Time

	failed time.Time // the last attempt
}

func lateness(m *message.Message, now time.Time) time.Duration {
	if m.Journey.Due.IsZero() {
		return 0
	}
	return now.Sub(m.Journey.Due)
}

// failure is why the message was not handled, or nil.
func (o *Observation) failure() error {
	if o.Outcome == Quarantined || o.Outcome == Returned {
		return o.Err
	}
	return nil
}
