package message

import "time"

// Parking is how an attempt to park a message ended.
type Parking int

// The outcomes of parking. The zero value is none of them.
const (
	// Parked means that the message now waits in Redis.
	Parked Parking = iota + 1
	// ParkedBefore means that this message waits already, as after a retry: one with
	// the same ID, entry and content. Nothing was changed, and the due time is that
	// message's.
	ParkedBefore
	// Overdue means that the instant has passed: nothing was stored, and the
	// message is to be published at once.
	Overdue
	// CancelledBefore means that the ID was cancelled, and nothing was stored: the due
	// time is that of the message that was cancelled, if it is known.
	CancelledBefore
	// Conflict means that a message with this ID and other content waits, and nothing
	// was stored: the due time is that message's.
	Conflict
)

// Ticket is what parking a message returns.
type Ticket struct {
	Parking Parking
	Due     time.Time // by Redis' clock
}
