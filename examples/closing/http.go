package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/delaybridge/delaybridge/consumer/orders"
)

// order is an order as JSON.
type order struct {
	ID       string       `json:"id"`
	SKU      string       `json:"sku"`
	Quantity int          `json:"quantity"`
	State    orders.State `json:"state,omitempty"`
	Placed   time.Time    `json:"placed,omitzero"`
	Decided  time.Time    `json:"decided,omitzero"`
}

// maxBody is the longest request, in bytes.
const maxBody = 1 << 16

func (s *shop) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /stock/{sku}", s.restock)
	mux.HandleFunc("POST /orders", s.placeOrder)
	mux.HandleFunc("POST /orders/{id}/payment", s.pay)
	mux.HandleFunc("GET /orders/{id}", s.show)
	return mux
}

// restock adds pieces, the body's number, to a stock.
func (s *shop) restock(w http.ResponseWriter, r *http.Request) {
	var pieces int
	if !read(w, r, &pieces) {
		return
	}
	if err := s.store.Restock(r.Context(), r.PathValue("sku"), pieces); err != nil {
		s.refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// placeOrder may be repeated with the same order, as after a lost answer.
func (s *shop) placeOrder(w http.ResponseWriter, r *http.Request) {
	var o order
	if !read(w, r, &o) {
		return
	}
	wanted := orders.Order{ID: o.ID, SKU: o.SKU, Quantity: o.Quantity}
	if err := wanted.Validate(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := s.place(r.Context(), wanted); err != nil {
		s.refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusCreated)
}

func (s *shop) pay(w http.ResponseWriter, r *http.Request) {
	if err := s.store.Pay(r.Context(), r.PathValue("id")); err != nil {
		s.refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *shop) show(w http.ResponseWriter, r *http.Request) {
	o, err := s.store.Order(r.Context(), r.PathValue("id"))
	if err != nil {
		s.refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(order(o)) // the client is gone
}

// read reads the body as JSON, or answers that it cannot.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(into); err != nil {
		http.Error(w, "the body is not what was expected: "+err.Error(), http.StatusBadRequest)
		return false
	}
	return true
}

// refuse answers with what went wrong.
func (s *shop) refuse(w http.ResponseWriter, err error) {
	code := http.StatusServiceUnavailable // to be tried again
	switch {
	case errors.Is(err, orders.ErrUnknown):
		code = http.StatusNotFound
	case errors.Is(err, orders.ErrClosed), errors.Is(err, orders.ErrConflict), errors.Is(err, orders.ErrOutOfStock):
		code = http.StatusConflict
	default:
		s.log.Warn("cannot answer a request", "error", err)
	}
	http.Error(w, err.Error(), code)
}
