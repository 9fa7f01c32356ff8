package orderstest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/delaybridge/delaybridge/consumer/orders"
)

// lastPieces has two handles sell the same five pieces.
func (t test) lastPieces() {
	const pieces, buyers = 5, 20
	one := t.stocked(pieces)
	handles := [...]Shop{one, t.open()}
	var sold atomic.Int64
	var wg sync.WaitGroup
	for i := range buyers {
		wg.Go(func() {
			err := handles[i%len(handles)].Place(t.Context(), orders.Order{ID: fmt.Sprintf("o-%d", i), SKU: sku, Quantity: 1})
			switch {
			case err == nil:
				sold.Add(1)
			case !errors.Is(err, orders.ErrOutOfStock):
				t.Errorf("order %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if sold.Load() != pieces {
		t.Errorf("sold %d, want %d", sold.Load(), pieces)
	}
	wantStock(t, one, 0)
}

// paidOrClosed has fifty goroutines, over two handles, close and pay the same
// 200 orders: each goroutine half of them, in a sequence of its own.
func (t test) paidOrClosed() {
	const goroutines, n = 50, 200
	one := t.stocked(2 * n)
	for i := range n {
		place(t, one, fmt.Sprintf("o-%d", i), 1+i%2)
	}
	handles := [...]Shop{one, t.open()}
	l := tally{paid: map[string]int{}, closed: map[string]int{}}
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			shop := handles[g%len(handles)]
			for _, i := range rand.Perm(n)[:n/2] { //nolint:gosec // shuffles, no secret
				id := fmt.Sprintf("o-%d", i)
				if (g/len(handles)+i)%2 == 0 {
					l.pay(t.Context(), t, shop, id)
				} else {
					l.close(t.Context(), t, shop, id)
				}
			}
		})
	}
	wg.Wait()
	available := 2 * n
	for i := range n {
		o := order(t, one, fmt.Sprintf("o-%d", i))
		paid, closed := l.paid[o.ID], l.closed[o.ID]
		switch {
		case o.State == orders.Paid && paid > 0 && closed == 0:
			available -= o.Quantity
		case o.State == orders.Closed && paid == 0 && closed == 1:
		default:
			t.Errorf("order %s ended %s; payments accepted: %d, times closed: %d", o.ID, o.State, paid, closed)
		}
	}
	wantStock(t, one, available)
}

// tally notes what each call was told.
type tally struct {
	mu     sync.Mutex
	paid   map[string]int // times a payment was accepted, by ID
	closed map[string]int // times the outcome was "closed"
}

func (l *tally) note(kind map[string]int, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kind[id]++
}

func (l *tally) pay(ctx context.Context, t testing.TB, shop Shop, id string) {
	t.Helper()
	switch err := shop.Pay(ctx, id); {
	case err == nil:
		l.note(l.paid, id)
	case !errors.Is(err, orders.ErrClosed):
		t.Errorf("pay %s: %v", id, err)
	}
}

func (l *tally) close(ctx context.Context, t testing.TB, shop Shop, id string) {
	t.Helper()
	outcome, err := shop.Close(ctx, id)
	if err != nil {
		t.Errorf("close %s: %v", id, err)
	}
	if outcome == orders.OutcomeClosed {
		l.note(l.closed, id)
	}
}

// placingAtOnce has several customers place what is the same order.
func (t test) placingAtOnce() {
	const n, customers = 20, 5
	one := t.stocked(2 * n)
	handles := [...]Shop{one, t.open()}
	var wg sync.WaitGroup
	for c := range customers {
		wg.Go(func() {
			for i := range n {
				place(t, handles[c%len(handles)], fmt.Sprintf("o-%d", i), 1)
			}
		})
	}
	wg.Wait()
	wantStock(t, one, n)
}
