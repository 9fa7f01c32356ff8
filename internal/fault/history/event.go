package history

import (
	"errors"
	"fmt"
)

// Kind says what an event is.
type Kind string

// Kinds of events.
const (
	Placed     Kind = "placed"      // the shop has the order
	Publish    Kind = "publish"     // a client is about to publish the order's message: NotBefore is set
	Published  Kind = "published"   // publish returned success: Due is what it returned
	Unknown    Kind = "unknown"     // publish returned that nobody knows
	Refused    Kind = "refused"     // publish returned a definite no
	Pay        Kind = "pay"         // a customer is about to pay
	Paid       Kind = "paid"        // the payment was accepted
	PayRefused Kind = "pay-refused" // it was refused, because the order is closed
	PayUnknown Kind = "pay-unknown" // no answer to the payment

	Cancel        Kind = "cancel"         // a client is about to cancel the order's message
	Cancelled     Kind = "cancelled"      // it will have no effect
	CancelLate    Kind = "cancel-late"    // it was too late for that
	CancelUnknown Kind = "cancel-unknown" // no answer

	Received     Kind = "received"     // a consumer's handler was called: Due, Intact are set
	Effect       Kind = "effect"       // the handler's effect returned: Detail is one of the Effect constants
	Acknowledged Kind = "acknowledged" // the consumer was told that the broker has the acknowledgement

	Fault  Kind = "fault"  // something was broken: Detail says what
	Mended Kind = "mended" // and made good again: Detail is that of the fault
)

// Details of an [Effect].
const (
	EffectClosed        = "closed"
	EffectAlreadyClosed = "already closed"
	EffectLeftAlone     = "paid, left alone"
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
	// Order is the order's ID; empty for faults, and for a message without ID.
	Order string `json:"order,omitempty"`
	// Act of the run in which it happened: placed, fault, mended.
	Act string `json:"act,omitempty"`
	// NotBefore is the instant, in Unix microseconds, before which this attempt
	// must not be delivered: publish.
	NotBefore int64 `json:"notbefore,omitempty"`
	// Due in Unix milliseconds: what the receipt says (published) or the message
	// (received). 0 if they say nothing.
	Due int64 `json:"due,omitempty"`
	// Intact says whether body, properties and headers were what was published:
	// received.
	Intact bool `json:"intact,omitempty"`
	// Detail is for people, except that of an effect, a fault and what is mended.
	Detail string `json:"detail,omitempty"`
}

// valid returns an error for an event over which the checker could not decide.
func (e *Event) valid() error {
	needsOrder := true
	switch e.Kind {
	case Fault, Mended:
		needsOrder = false
	case Received, Effect, Acknowledged:
		needsOrder = false // a message may have no ID
	case Placed, Publish, Published, Unknown, Refused, Pay, Paid, PayRefused, PayUnknown,
		Cancel, Cancelled, CancelLate, CancelUnknown:
	default:
		return fmt.Errorf("unknown kind %q", e.Kind)
	}
	switch {
	case e.At <= 0 || e.Who == "":
		return errors.New("no time, or nobody who wrote it")
	case needsOrder && e.Order == "":
		return fmt.Errorf("%s of no order", e.Kind)
	case e.Kind == Publish && e.NotBefore <= 0:
		return errors.New("publish without an instant before which it must not be delivered")
	case e.Kind == Effect && e.Detail != EffectClosed && e.Detail != EffectAlreadyClosed && e.Detail != EffectLeftAlone:
		return fmt.Errorf("unknown effect %q", e.Detail)
	}
	return nil
}
