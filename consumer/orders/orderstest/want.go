package orderstest

import (
	"testing"

	"github.com/delaybridge/delaybridge/consumer/orders"
)

// stocked opens the store and puts this many pieces into it.
func (t test) stocked(pieces int) Shop {
	t.Helper()
	shop := t.open()
	if err := shop.Restock(t.Context(), sku, pieces); err != nil {
		t.Fatal(err)
	}
	return shop
}

func place(t testing.TB, shop Shop, id string, quantity int) {
	t.Helper()
	if err := shop.Place(t.Context(), orders.Order{ID: id, SKU: sku, Quantity: quantity}); err != nil {
		t.Fatal(err)
	}
}

func order(t testing.TB, shop Shop, id string) orders.Order {
	t.Helper()
	o, err := shop.Order(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func wantState(t testing.TB, shop Shop, want orders.State) {
	t.Helper()
	if got := order(t, shop, "o-1").State; got != want {
		t.Errorf("order o-1 is %s, want %s", got, want)
	}
}

func wantClose(t testing.TB, shop Shop, want orders.Outcome) {
	t.Helper()
	if got, err := shop.Close(t.Context(), "o-1"); err != nil || got != want {
		t.Errorf("closing o-1: got %q, %v, want %q", got, err, want)
	}
}

func wantStock(t testing.TB, shop Shop, want int) {
	t.Helper()
	got, err := shop.Stock(t.Context())
	if err != nil || len(got) != 1 || got[0] != (orders.Stock{SKU: sku, Available: want}) {
		t.Errorf("stock is %v, %v, want %d of %s", got, err, want, sku)
	}
}
