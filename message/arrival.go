package message

import "time"

// Fate is what is to become of a message that has come to its consumer.
type Fate string

// The fates.
const (
	// Deliver: the message is to be handled.
	Deliver Fate = "deliver"
	// DropCancelled: the message was cancelled on its way.
	DropCancelled Fate = "cancelled"
	// DropRescheduled: the message was rescheduled on its way; another copy comes, or
	// has come, at its own due time.
	DropRescheduled Fate = "rescheduled"
)

// Arrival is what is known of a message that has come to its consumer.
type Arrival struct {
	Fate Fate
	// At is when it was cancelled, or when it is due now that it was rescheduled, by
	// Redis' clock; zero for one that is to be delivered.
	At time.Time
}
