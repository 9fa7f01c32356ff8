package orderstest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/delaybridge/delaybridge/consumer/ledger"
	"github.com/delaybridge/delaybridge/consumer/orders"
	"github.com/delaybridge/delaybridge/message"
)

// RunWithLedger tests a store behind a ledger that shares its transactions. fresh is
// that of Run, and gives the ledger to each handle.
func RunWithLedger(t *testing.T, fresh func(t testing.TB) func() (Shop, ledger.Ledger)) {
	t.Helper()
	for name, run := range map[string]func(withLedger){
		"closed and marked together":                           withLedger.together,
		"200 consumers close the same 1,000 orders twice each": withLedger.crowd,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := fresh(t)
			w := withLedger{ledgers: map[Shop]ledger.Ledger{}}
			w.test = test{t, func() Shop {
				shop, l := open()
				w.ledgers[shop] = l
				return shop
			}}
			run(w)
		})
	}
}

// withLedger is one test of a store behind a ledger.
type withLedger struct {
	test
	ledgers map[Shop]ledger.Ledger // by handle
}

// handle handles a message as a consumer with a ledger does.
func (w withLedger) handle(shop Shop, id string, after error) (first bool, err error) {
	closer := orders.Closer{Store: shop}
	return w.ledgers[shop].Once(w.Context(), id, func(ctx context.Context) error {
		return errors.Join(closer.Handle(ctx, message.Message{ID: id}), after)
	})
}

// together has a handler fail after it has closed the order.
func (w withLedger) together() {
	shop := w.stocked(5)
	place(w, shop, "o-1", 2)
	broken := errors.New("the handler fails after that")
	if first, err := w.handle(shop, "o-1", broken); first || !errors.Is(err, broken) {
		w.Errorf("got %v, %v, want the handler's error", first, err)
	}
	wantState(w, shop, orders.Pending)
	wantStock(w, shop, 3)
	for _, want := range []bool{true, false} {
		if first, err := w.handle(shop, "o-1", nil); first != want || err != nil {
			w.Errorf("got %v, %v, want %v", first, err, want)
		}
		wantState(w, shop, orders.Closed)
		wantStock(w, shop, 5)
	}
	if first, err := w.handle(shop, "o-2", nil); first || !errors.Is(err, orders.ErrUnknown) {
		w.Errorf("an order nobody has placed: got %v, %v, want ErrUnknown", first, err)
	}
	place(w, shop, "o-2", 1)
	if first, err := w.handle(shop, "o-2", nil); !first || err != nil {
		w.Errorf("placed since: got %v, %v, want the first", first, err)
	}
}

func (w withLedger) crowd() {
	handles := w.placeMany()
	var firsts, duplicates atomic.Int64
	deliver(func(consumer int, id string) {
		for {
			first, err := w.handle(handles[consumer%len(handles)], id, nil)
			switch {
			case errors.Is(err, ledger.ErrBusy):
				continue
			case err != nil:
				w.Errorf("close %s: %v", id, err)
			case first:
				firsts.Add(1)
			default:
				duplicates.Add(1)
			}
			return
		}
	})
	if firsts.Load() != crowdOrders || duplicates.Load() != crowdOrders {
		w.Errorf("%d were the first and %d duplicates, want %d of each", firsts.Load(), duplicates.Load(), crowdOrders)
	}
	w.wantAllClosed(handles[0])
}
