package message

import "time"

// Arrival is what is known of a message that has come to its consumer. The zero value is one
// that is to be handled.
type Arrival struct {
	// Cancelled and Rescheduled are whether that happened to the message on its way, so that it
	// is to be dropped. Of one that was rescheduled another copy comes, or has come, at its own due
	// time.
	Cancelled, Rescheduled bool
	// At is when it was cancelled, or when it is due now that it was rescheduled, by
	// Redis' clock; zero for one that is to be handled.
	At time.Time
}

// Because says why the message is to be dropped, cancelled or rescheduled, and is empty where it
// is to be handled.
func (a Arrival) Because() string {
	switch {
	case a.Cancelled:
		return "cancelled"
	case a.Rescheduled:
		return "rescheduled"
	}
	return ""
}
