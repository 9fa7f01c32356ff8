package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/consumer/orders"
)

// totals are what the demo's last line says.
type totals struct {
	orders, closed, paid int
	// lost orders were never decided, or their message never came.
	lost int
	// early messages came before their delay was over.
	early int
	// double orders were closed more than once, or closed and paid, or stock
	// came back more than once.
	double           int
	latenessP50, max time.Duration
}

// add makes up the account: what was seen of each order, against what the shop
// has on record of it and of its stock.
func add(rows []row, recorded []orders.Order, stocked, left int) totals {
	t := totals{orders: len(rows)}
	states := map[string]orders.State{}
	for _, o := range recorded {
		states[o.ID] = o.State
	}
	var lateness []time.Duration
	sold := 0
	for _, r := range rows {
		closings := 0
		for _, d := range r.delivered {
			lateness = append(lateness, d.lateness)
			if d.outcome == orders.OutcomeClosed {
				closings++
			}
			if d.lateness < 0 || d.at.Before(r.placed.Add(r.delay)) {
				t.early++
			}
		}
		state, undecided := states[r.order.ID], false
		switch state {
		case orders.Closed:
			t.closed++
		case orders.Paid:
			t.paid++
			sold += r.order.Quantity
		default:
			undecided = true
		}
		if undecided || len(r.delivered) == 0 {
			t.lost++
		}
		if closings > 1 || (closings > 0 && !r.paid.IsZero()) || (closings > 0 && state == orders.Paid) {
			t.double++
		}
	}
	switch want := stocked - sold; {
	case left > want:
		t.double++
	case left < want && t.lost == 0: // a lost order keeps its stock
		t.lost++
	}
	if slices.Sort(lateness); len(lateness) > 0 {
		t.latenessP50, t.max = lateness[(len(lateness)-1)/2], lateness[len(lateness)-1]
	}
	return t
}

// good reports whether the promises were kept.
func (t totals) good() bool { return t.lost == 0 && t.early == 0 && t.double == 0 }

func (t totals) String() string {
	return fmt.Sprintf("demo: orders=%d closed=%d paid=%d lost=%d early=%d double=%d lateness_ms_p50=%d lateness_ms_max=%d",
		t.orders, t.closed, t.paid, t.lost, t.early, t.double, t.latenessP50.Milliseconds(), t.max.Milliseconds())
}
