package history

import (
	"errors"
	"fmt"
	"slices"
)

// Kind says what an event is.
type Kind string

// Kinds of events.
const (
	Placed     Kind = "placed"      // the shop has the order
	Publish    Kind = "publish"     // a client is about to publish the order's message: NotBefore is set
	Published  Kind = "published"   // publish returned success: Due is what it returned
	Unknown    Kind = "unknown"     // publish returned that the outcome is unknown
	Refused    Kind = "refused"     // publish returned a definite no
	Pay        Kind = "pay"         // a customer is about to pay
	Paid       Kind = "paid"        // the payment was accepted
	PayRefused Kind = "pay-refused" // it was refused, because the order is closed
	PayUnknown Kind = "pay-unknown" // no answer to the payment

	Cancel        Kind = "cancel"         // a client is about to cancel the order's message
	Cancelled     Kind = "cancelled"      // it will have no effect
	Tombstoned    Kind = "tombstoned"     // nothing is known of it; if it comes it will be dropped
	CancelLate    Kind = "cancel-late"    // it was delivered before: Since is set
	CancelRefused Kind = "cancel-refused" // a definite no
	CancelUnknown Kind = "cancel-unknown" // no answer

	Reschedule          Kind = "reschedule"           // a client is about to reschedule it: NotBefore is set
	Rescheduled         Kind = "rescheduled"          // it has a new due time: Due
	Noted               Kind = "noted"                // nothing is known of it; it will not come before Due
	RescheduleLate      Kind = "reschedule-late"      // it was delivered before: Since is set
	RescheduleCancelled Kind = "reschedule-cancelled" // it was cancelled before
	RescheduleRefused   Kind = "reschedule-refused"   // a definite no
	RescheduleUnknown   Kind = "reschedule-unknown"   // no answer

	Get Kind = "get" // a client is about to look the order's message up
	Got Kind = "got" // and sees: Detail is one of the Got constants; Due, where there is a message

	List   Kind = "list"   // a client is about to list what waits
	Listed Kind = "listed" // and sees Orders

	Dropped      Kind = "dropped"      // a consumer was told not to handle it: Detail is one of the Dropped constants
	Received     Kind = "received"     // a consumer's handler was called: Due, Intact, Attempt are set
	Effect       Kind = "effect"       // the handler's effect returned: Detail is one of the Effect constants
	Failed       Kind = "failed"       // the handler is about to fail: Attempt is set, and NotBefore if it says when to try again
	Rejected     Kind = "rejected"     // the handler is about to reject the message, as planned: Detail is the reason
	Acknowledged Kind = "acknowledged" // the consumer was told that the broker has the acknowledgement

	Fault  Kind = "fault"  // something was broken: Detail says what
	Mended Kind = "mended" // and made good again: Detail is that of the fault
)

// What the detail of an order that is [Placed] begins with.
const (
	ThroughInbox = "entry"                          // its message is published to the inbox
	WithoutID    = ThroughInbox + ", without an ID" // likewise, and has no ID
	// ThroughOutbox says that order and message are one transaction, which had not begun yet.
	ThroughOutbox = "outbox"
)

// Orderly ends the detail of a [Fault] that is only a process asked to end.
const Orderly = "is asked to end"

// Details of an [Effect].
const (
	EffectClosed        = "closed"
	EffectAlreadyClosed = "already closed"
	EffectLeftAlone     = "paid, left alone"
)

// Details of what a client [Got].
const (
	GotNothing   = "nothing"
	GotWaiting   = "waiting" // in Redis or with the broker
	GotCancelled = "cancelled"
	GotDelivered = "delivered"
	GotSeveral   = "several" // messages with that ID
)

// Details of what is [Dropped].
const (
	DroppedCancelled   = "cancelled"
	DroppedRescheduled = "rescheduled"
)

// Event is what one process did or saw.
type Event struct {
	// At is when, in Unix microseconds by the machine's real-time clock. A call is
	// written before it is made, an outcome after it is known.
	At int64 `json:"at"`
	// Who wrote it: name and incarnation of a process, such as "consumer-2/7".
	Who string `json:"who"`
	// Kind says what it is.
	Kind Kind `json:"kind"`
	// Order is the order's ID; empty for faults, and for a message that is no order's.
	Order string `json:"order,omitempty"`
	// ID is that of the message, where that is not the order's: placed, where it is another
	// order's, and received.
	ID string `json:"id,omitempty"`
	// Queue is the one to which the order's message goes (placed), or that answers
	// nothing, which must hold up no order of another queue (fault).
	Queue string `json:"queue,omitempty"`
	// Also is a second queue to which the order's message goes: placed.
	Also string `json:"also,omitempty"`
	// Unasked is for how many microseconds before it is due the broker may have the message,
	// where its consumer does not ask Redis: placed. 0 where it asks.
	Unasked int64 `json:"unasked,omitempty"`
	// Act of the run in which it happened: placed, fault, mended.
	Act string `json:"act,omitempty"`
	// NotBefore is the instant, in Unix microseconds, before which the message must
	// not be delivered: that of this attempt (publish), from now on (reschedule), for
	// the next time (failed).
	NotBefore int64 `json:"notbefore,omitempty"`
	// Due in Unix milliseconds: what the receipt says (published), the answer
	// (rescheduled, noted) or the message (received). 0 if they say nothing.
	Due int64 `json:"due,omitempty"`
	// Orders whose messages wait, and when those are due in Unix milliseconds: listed.
	Orders map[string]int64 `json:"orders,omitempty"`
	// Since is when the message was delivered, Unix milliseconds, if an answer says
	// so: cancel-late, reschedule-late.
	Since int64 `json:"since,omitempty"`
	// Asked is when the consumer began to ask whether to handle the message, in Unix
	// microseconds: received. 0 if it does not ask.
	Asked int64 `json:"asked,omitempty"`
	// Ahead is by how many microseconds the clock that dates the message is ahead:
	// publish.
	Ahead int64 `json:"ahead,omitempty"`
	// Splits says that a message for two queues may come to one of them alone: fault.
	Splits bool `json:"splits,omitempty"`
	// Loses says that Redis loses what it is told meanwhile: fault.
	Loses bool `json:"loses,omitempty"`
	// Forgets says that it may be forgotten that a message was cancelled or rescheduled: fault.
	Forgets bool `json:"forgets,omitempty"`
	// Steps is by how many microseconds the clock of Redis is ahead meanwhile, or behind where
	// it is negative: fault.
	Steps int64 `json:"steps,omitempty"`
	// Aftermath is for how many microseconds orders may still be late when it has been
	// mended: fault. 0 is the usual.
	Aftermath int64 `json:"aftermath,omitempty"`
	// Attempt is how often the message was handled before, in vain: received, failed.
	Attempt int `json:"attempt,omitempty"`
	// Intact says whether body, properties and headers were what was published:
	// received.
	Intact bool `json:"intact,omitempty"`
	// Detail is for people, except that of what is placed, of an effect, of what is
	// dropped or rejected, of a fault and of what is mended.
	Detail string `json:"detail,omitempty"`
}

// valid returns an error for an event over which the checker could not decide.
func (e *Event) valid() error {
	needsOrder := true
	switch e.Kind {
	case Fault, Mended, List, Listed:
		needsOrder = false
	case Received, Dropped, Effect, Failed, Rejected, Acknowledged:
		needsOrder = false // a message may have no ID
	case Placed, Publish, Published, Unknown, Refused, Pay, Paid, PayRefused, PayUnknown,
		Cancel, Cancelled, Tombstoned, CancelLate, CancelRefused, CancelUnknown,
		Get, Got,
		Reschedule, Rescheduled, Noted, RescheduleLate, RescheduleCancelled, RescheduleRefused, RescheduleUnknown:
	default:
		return fmt.Errorf("unknown kind %q", e.Kind)
	}
	switch {
	case e.At <= 0 || e.Who == "":
		return errors.New("no time, or no name of who wrote it")
	case needsOrder && e.Order == "":
		return fmt.Errorf("%s of no order", e.Kind)
	case (e.Kind == Publish || e.Kind == Reschedule) && e.NotBefore <= 0:
		return fmt.Errorf("%s without an instant before which it must not be delivered", e.Kind)
	case (e.Kind == Rescheduled || e.Kind == Noted) && e.Due <= 0:
		return fmt.Errorf("%s without a due time", e.Kind)
	case e.Kind == Dropped && e.Detail != DroppedCancelled && e.Detail != DroppedRescheduled:
		return fmt.Errorf("dropped as %q, which means nothing", e.Detail)
	case e.Kind == Got && !slices.Contains([]string{GotNothing, GotWaiting, GotCancelled, GotDelivered, GotSeveral}, e.Detail):
		return fmt.Errorf("looked up as %q, which means nothing", e.Detail)
	case e.Kind == Effect && e.Detail != EffectClosed && e.Detail != EffectAlreadyClosed && e.Detail != EffectLeftAlone:
		return fmt.Errorf("unknown effect %q", e.Detail)
	}
	return nil
}
