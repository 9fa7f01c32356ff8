// Package orderstest is the conformance suite for whatever keeps orders: run it
// from the tests of each store.
package orderstest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/consumer/orders"
)

// Shop is a store with all that an order goes through.
type Shop interface {
	orders.Store
	Restock(ctx context.Context, sku string, n int) error
	Place(ctx context.Context, o orders.Order) error
	Pay(ctx context.Context, id string) error
	Order(ctx context.Context, id string) (orders.Order, error)
	Orders(ctx context.Context) ([]orders.Order, error)
	Stock(ctx context.Context) ([]orders.Stock, error)
}

// Run runs the suite. fresh gives a test an empty store: each call of what it
// returns opens another handle on that same store, as another process would.
// It cleans up with t.Cleanup.
func Run(t *testing.T, fresh func(t testing.TB) func() Shop) {
	t.Helper()
	for name, run := range map[string]func(test){
		"placing takes stock":                                  test.placingTakesStock,
		"placing again changes nothing":                        test.placingAgain,
		"placing is refused":                                   test.placingIsRefused,
		"closing gives the stock back once":                    test.closingOnce,
		"a paid order is left alone":                           test.paidIsLeftAlone,
		"a closed order cannot be paid":                        test.closedCannotBePaid,
		"an unknown order":                                     test.unknownOrder,
		"orders are listed by age":                             test.listing,
		"the last piece is sold once":                          test.lastPieces,
		"paid or closed, whoever comes first":                  test.paidOrClosed,
		"IDs that are nearly the same":                         test.similarIDs,
		"placed twice at the same time":                        test.placingAtOnce,
		"200 consumers close the same 1,000 orders twice each": test.crowd,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(test{t, fresh(t)})
		})
	}
}

// test is one test of the suite and its store.
type test struct {
	*testing.T
	open func() Shop
}

const sku = "tea"

func (t test) placingTakesStock() {
	shop := t.stocked(5)
	before := time.Now()
	place(t, shop, "o-1", 2)
	got := order(t, shop, "o-1")
	if got.SKU != sku || got.Quantity != 2 || got.State != orders.Pending || !got.Decided.IsZero() {
		t.Errorf("placed %+v, want 2 of %s, pending", got, sku)
	}
	if got.Placed.Before(before.Truncate(time.Millisecond)) || got.Placed.After(time.Now()) {
		t.Errorf("placed at %v, want now", got.Placed)
	}
	wantStock(t, shop, 3)
}

func (t test) placingAgain() {
	shop := t.stocked(5)
	place(t, shop, "o-1", 2)
	place(t, shop, "o-1", 2)
	wantStock(t, shop, 3)
	if _, err := shop.Close(t.Context(), "o-1"); err != nil {
		t.Fatal(err)
	}
	place(t, shop, "o-1", 2)
	wantState(t, shop, orders.Closed)
	wantStock(t, shop, 5)
}

func (t test) placingIsRefused() {
	shop := t.stocked(5)
	place(t, shop, "o-1", 2)
	for name, c := range map[string]struct {
		order orders.Order
		want  error // nil for any
	}{
		"more than there is":  {orders.Order{ID: "o-2", SKU: sku, Quantity: 4}, orders.ErrOutOfStock},
		"never stocked":       {orders.Order{ID: "o-2", SKU: "coffee", Quantity: 1}, orders.ErrOutOfStock},
		"other quantity":      {orders.Order{ID: "o-1", SKU: sku, Quantity: 1}, orders.ErrConflict},
		"other SKU":           {orders.Order{ID: "o-1", SKU: "coffee", Quantity: 2}, orders.ErrConflict},
		"no ID":               {orders.Order{SKU: sku, Quantity: 1}, nil},
		"no SKU":              {orders.Order{ID: "o-2", Quantity: 1}, nil},
		"nothing of it":       {orders.Order{ID: "o-2", SKU: sku}, nil},
		"a negative quantity": {orders.Order{ID: "o-2", SKU: sku, Quantity: -1}, nil},
	} {
		err := shop.Place(t.Context(), c.order)
		if err == nil || (c.want != nil && !errors.Is(err, c.want)) {
			t.Errorf("%s: got %v, want an error (%v)", name, err, c.want)
		}
	}
	if _, err := shop.Order(t.Context(), "o-2"); !errors.Is(err, orders.ErrUnknown) {
		t.Errorf("a refused order is there: %v", err)
	}
	wantStock(t, shop, 3)
}

func (t test) closingOnce() {
	shop := t.stocked(5)
	place(t, shop, "o-1", 2)
	wantClose(t, shop, orders.OutcomeClosed)
	wantStock(t, shop, 5)
	first := order(t, shop, "o-1")
	if first.State != orders.Closed || first.Decided.Before(first.Placed) {
		t.Errorf("got %+v, want it closed after it was placed", first)
	}
	wantClose(t, t.open(), orders.OutcomeAlreadyClosed)
	wantStock(t, shop, 5)
	if again := order(t, shop, "o-1"); !again.Decided.Equal(first.Decided) {
		t.Errorf("a duplicate changed %+v to %+v", first, again)
	}
}

func (t test) paidIsLeftAlone() {
	shop := t.stocked(5)
	place(t, shop, "o-1", 2)
	for range 2 { // paying again changes nothing
		if err := shop.Pay(t.Context(), "o-1"); err != nil {
			t.Fatal(err)
		}
	}
	wantClose(t, shop, orders.OutcomePaid)
	wantState(t, shop, orders.Paid)
	wantStock(t, shop, 3)
}

func (t test) closedCannotBePaid() {
	shop := t.stocked(5)
	place(t, shop, "o-1", 2)
	wantClose(t, shop, orders.OutcomeClosed)
	if err := shop.Pay(t.Context(), "o-1"); !errors.Is(err, orders.ErrClosed) {
		t.Errorf("paying a closed order: got %v, want ErrClosed", err)
	}
	wantState(t, shop, orders.Closed)
	wantStock(t, shop, 5)
}

func (t test) unknownOrder() {
	shop := t.stocked(5)
	if outcome, err := shop.Close(t.Context(), "o-1"); !errors.Is(err, orders.ErrUnknown) {
		t.Errorf("closing: got %q, %v, want ErrUnknown", outcome, err)
	}
	if err := shop.Pay(t.Context(), "o-1"); !errors.Is(err, orders.ErrUnknown) {
		t.Errorf("paying: got %v, want ErrUnknown", err)
	}
}

func (t test) listing() {
	shop := t.stocked(9)
	if got, err := shop.Orders(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("got %v, %v, want none", got, err)
	}
	for i := range 3 {
		place(t, shop, fmt.Sprintf("o-%d", i), i+1)
	}
	got, err := t.open().Orders(t.Context())
	if err != nil || len(got) != 3 {
		t.Fatalf("got %v, %v, want three orders", got, err)
	}
	for i, o := range got {
		if o.Quantity != i+1 {
			t.Errorf("number %d is %+v", i, o)
		}
	}
}

// similarIDs are those of different orders.
func (t test) similarIDs() {
	shop := t.stocked(9)
	ids := []string{"o", "O", "o ", "ö", "o%", "o'", "o?"}
	for _, id := range ids {
		place(t, shop, id, 1)
	}
	wantStock(t, shop, 9-len(ids))
	for _, id := range ids {
		if got, err := shop.Close(t.Context(), id); err != nil || got != orders.OutcomeClosed {
			t.Errorf("closing %q: got %q, %v", id, got, err)
		}
	}
	wantStock(t, shop, 9)
}
