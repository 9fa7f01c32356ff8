// Package orders closes unpaid orders: a consumer handler whose effect is
// exactly once although delivery is at least once.
//
// An order is placed, which takes its quantity out of stock, and then decided
// once: paid, or closed, which gives the stock back.
//
//	           Pay
//	        +--------> paid      Close leaves it alone
//	pending |
//	        +--------> closed    Pay is refused
//	          Close
//
// Each arrow is one conditional change of state, in the same transaction as the
// change of stock. So a duplicate finds nothing left to change, and says so.
package orders

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// State of an [Order].
type State string

// The states.
const (
	Pending State = "pending"
	Paid    State = "paid"
	Closed  State = "closed"
)

// Order is one order.
type Order struct {
	ID       string // also the ID of the message that will close it
	SKU      string // what was ordered
	Quantity int
	State    State
	Placed   time.Time // to the millisecond
	Decided  time.Time // when it was paid or closed; zero while pending
}

// Stock is how many pieces of one SKU can still be ordered.
type Stock struct {
	SKU       string
	Available int
}

// Validate reports every fault of an order that is to be placed at once.
func (o *Order) Validate() error {
	var faults []error
	if o.ID == "" {
		faults = append(faults, errors.New("orders: the order has no ID"))
	}
	if o.SKU == "" {
		faults = append(faults, fmt.Errorf("orders: order %q has no SKU", o.ID))
	}
	if o.Quantity < 1 {
		faults = append(faults, fmt.Errorf("orders: order %q: quantity %d: use at least 1", o.ID, o.Quantity))
	}
	return errors.Join(faults...)
}

// Outcome is what closing an order came to.
type Outcome string

// The outcomes.
const (
	// OutcomeClosed: the order was pending and is closed now; its stock is back.
	OutcomeClosed Outcome = "closed"
	// OutcomeAlreadyClosed: a duplicate; nothing was changed.
	OutcomeAlreadyClosed Outcome = "already closed"
	// OutcomePaid: the order was paid and was left alone.
	OutcomePaid Outcome = "paid, left alone"
)

// Errors of a [Store] and of what else keeps orders.
var (
	// ErrUnknown: there is no order with this ID.
	ErrUnknown = errors.New("no such order")
	// ErrClosed: a closed order can no longer be paid.
	ErrClosed = errors.New("the order is closed and can no longer be paid")
	// ErrOutOfStock: less is left than the order asks for.
	ErrOutOfStock = errors.New("out of stock")
	// ErrConflict: another order has the same ID.
	ErrConflict = errors.New("the ID is taken by an order with another SKU or quantity")
)

// Store is what closing needs of whatever keeps the orders.
type Store interface {
	// Close closes a pending order and gives its stock back, atomically, and is
	// durable when it returns. It may be called any number of times, from any
	// number of processes. The error wraps ErrUnknown where there is no order
	// with this ID; any other error is worth another try.
	Close(ctx context.Context, id string) (Outcome, error)
}
