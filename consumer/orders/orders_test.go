package orders_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/delaybridge/delaybridge/consumer/orders"
	"github.com/delaybridge/delaybridge/message"
)

// storeFunc is Close as an orders.Store.
type storeFunc func(id string) (orders.Outcome, error)

func (f storeFunc) Close(_ context.Context, id string) (orders.Outcome, error) { return f(id) }

func TestCloser(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is full")
	for name, c := range map[string]struct {
		outcome  orders.Outcome
		err      error
		rejected bool
	}{
		"closed":         {outcome: orders.OutcomeClosed},
		"already closed": {outcome: orders.OutcomeAlreadyClosed},
		"paid":           {outcome: orders.OutcomePaid},
		"unknown":        {err: fmt.Errorf("close: %w", orders.ErrUnknown), rejected: true},
		"broken":         {err: broken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told []string
			closer := orders.Closer{
				Store: storeFunc(func(id string) (orders.Outcome, error) {
					if id != "o-1" {
						t.Errorf("closed %q, want the order with the message's ID", id)
					}
					return c.outcome, c.err
				}),
				Closed: func(m message.Message, o orders.Outcome) { told = append(told, m.ID+" "+string(o)) },
			}
			err := closer.Handle(t.Context(), message.Message{ID: "o-1"})
			if !errors.Is(err, c.err) {
				t.Errorf("got %v, want %v", err, c.err)
			}
			if c.err != nil && (err != c.err) != c.rejected { //nolint:errorlint // wrapped means rejected
				t.Errorf("got %v, rejected should be %v", err, c.rejected)
			}
			if want := fmt.Sprint([]string{"o-1 " + string(c.outcome)}); c.err == nil && fmt.Sprint(told) != want {
				t.Errorf("told %v, want %v", told, want)
			}
			if c.err != nil && told != nil {
				t.Errorf("told %v of a failure", told)
			}
		})
	}
}

func TestOrderFaultsAllAtOnce(t *testing.T) {
	t.Parallel()
	err := (&orders.Order{Quantity: -1}).Validate()
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || len(joined.Unwrap()) != 3 {
		t.Errorf("got %v, want three faults", err)
	}
}
