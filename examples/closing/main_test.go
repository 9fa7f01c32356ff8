package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/consumer/orders"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// patience is for what has no reason to take long, on a machine that may have.
const patience = 2 * time.Minute

func TestUnpaidOrdersAreClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// Placed by a process that died before it published anything.
	orphan := w.openStore()
	if err := orphan.Restock(t.Context(), "tea", 10); err != nil {
		t.Fatal(err)
	}
	if err := orphan.Place(t.Context(), orders.Order{ID: "orphan", SKU: "tea", Quantity: 1}); err != nil {
		t.Fatal(err)
	}
	w.open()

	w.post(http.StatusNoContent, "/stock/tea", "5")
	w.post(http.StatusCreated, "/orders", `{"id":"unpaid","sku":"tea","quantity":2}`)
	w.post(http.StatusCreated, "/orders", `{"id":"paid","sku":"tea","quantity":4}`)
	w.post(http.StatusConflict, "/orders", `{"id":"too-many","sku":"tea","quantity":9}`)
	w.post(http.StatusBadRequest, "/orders", `{"id":"nothing","sku":"tea"}`)
	w.post(http.StatusBadRequest, "/orders", `two of the green one, please`)
	w.post(http.StatusNotFound, "/orders/unknown/payment", "")
	w.post(http.StatusNoContent, "/orders/paid/payment", "")
	for _, id := range []string{"orphan", "unpaid"} {
		w.await("order "+id+" is closed", func() bool { return w.get(id).State == orders.Closed })
		if o := w.get(id); o.Decided.Before(o.Placed.Add(payWithin)) {
			t.Errorf("%+v was closed early", o)
		}
	}
	w.post(http.StatusConflict, "/orders/unpaid/payment", "")

	// The same again, and the message of the order that is paid.
	w.deliver("unpaid", "unpaid", "paid")
	w.await("three messages are handled, and all others are duplicates", func() bool {
		return w.outcome(consumer.Acknowledged) == 3 && w.outcome(consumer.Duplicate) >= 3
	})
	if o := w.get("paid"); o.State != orders.Paid {
		t.Errorf("%+v was paid", o)
	}
	stock, err := orphan.Stock(t.Context())
	if err != nil || len(stock) != 1 || stock[0].Available != 11 {
		t.Errorf("the stock is %v, %v, want the 15 there were without the 4 that are paid", stock, err)
	}
}
