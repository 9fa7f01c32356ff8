package orderstest

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/delaybridge/delaybridge/consumer/orders"
)

const crowdConsumers, crowdOrders = 200, 1000

// crowd has 200 consumers, over two handles, close 1,000 orders, for each of which
// two messages come at about the same time.
func (t test) crowd() {
	handles := t.placeMany()
	var closed, again atomic.Int64
	deliver(func(consumer int, id string) {
		switch outcome, err := handles[consumer%len(handles)].Close(t.Context(), id); {
		case err != nil:
			t.Errorf("close %s: %v", id, err)
		case outcome == orders.OutcomeClosed:
			closed.Add(1)
		case outcome == orders.OutcomeAlreadyClosed:
			again.Add(1)
		default:
			t.Errorf("close %s: %s", id, outcome)
		}
	})
	if closed.Load() != crowdOrders || again.Load() != crowdOrders {
		t.Errorf("%d times closed, %d times already closed, want %d of each", closed.Load(), again.Load(), crowdOrders)
	}
	t.wantAllClosed(handles[0])
}

// placeMany places orders that leave nothing in stock, and returns two handles.
func (t test) placeMany() [2]Shop {
	t.Helper()
	pieces := 0
	for i := range crowdOrders {
		pieces += crowdQuantity(i)
	}
	one := t.stocked(pieces)
	var placing sync.WaitGroup
	const customers = 8
	for c := range customers {
		placing.Go(func() {
			for i := c; i < crowdOrders; i += customers {
				if err := one.Place(t.Context(), orders.Order{ID: crowdID(i), SKU: sku, Quantity: crowdQuantity(i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	placing.Wait()
	wantStock(t, one, 0)
	return [2]Shop{one, t.open()}
}

// deliver hands each order's ID to two of the consumers, which take what comes next.
func deliver(to func(consumer int, id string)) {
	deliveries := make(chan string, 2*crowdOrders)
	for i := range 2 * crowdOrders {
		deliveries <- crowdID(i / 2)
	}
	close(deliveries)
	var consumers sync.WaitGroup
	for c := range crowdConsumers {
		consumers.Go(func() {
			for id := range deliveries {
				to(c, id)
			}
		})
	}
	consumers.Wait()
}

// wantAllClosed expects each order closed, and all of the stock back.
func (t test) wantAllClosed(shop Shop) {
	t.Helper()
	all, err := shop.Orders(t.Context())
	if err != nil || len(all) != crowdOrders {
		t.Fatalf("%d orders, %v, want %d", len(all), err, crowdOrders)
	}
	pieces := 0
	for _, o := range all {
		if pieces += o.Quantity; o.State != orders.Closed {
			t.Errorf("order %s ended %s", o.ID, o.State)
		}
	}
	wantStock(t, shop, pieces)
}

func crowdID(i int) string { return fmt.Sprintf("o-%d", i) }

func crowdQuantity(i int) int { return 1 + i%3 }
