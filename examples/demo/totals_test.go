package main

import (
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/consumer/orders"
)

// came is a message that reached the consumer so long after the order was placed.
func came(placed time.Time, after, delay time.Duration, outcome orders.Outcome) delivered {
	return delivered{at: placed.Add(after), lateness: after - delay, outcome: outcome}
}

func TestTotals(t *testing.T) {
	t.Parallel()
	const second = time.Second
	placed := time.Now()
	on := func(ms time.Duration, outcome orders.Outcome) []delivered {
		return []delivered{came(placed, second+ms*time.Millisecond, second, outcome)}
	}
	for name, c := range map[string]struct {
		delivered []delivered
		paid      bool
		state     orders.State
		left      int // of 5, after an order for 2
		want      string
	}{
		"closed": {on(3, orders.OutcomeClosed), false, orders.Closed, 5,
			"demo: orders=1 closed=1 paid=0 lost=0 early=0 double=0 lateness_ms_p50=3 lateness_ms_max=3"},
		"paid": {on(3, orders.OutcomePaid), true, orders.Paid, 3,
			"demo: orders=1 closed=0 paid=1 lost=0 early=0 double=0 lateness_ms_p50=3 lateness_ms_max=3"},
		"a harmless duplicate": {append(on(3, orders.OutcomeClosed), on(9, orders.OutcomeAlreadyClosed)...), false, orders.Closed, 5,
			"demo: orders=1 closed=1 paid=0 lost=0 early=0 double=0 lateness_ms_p50=3 lateness_ms_max=9"},
		"never came": {nil, false, orders.Pending, 3,
			"demo: orders=1 closed=0 paid=0 lost=1 early=0 double=0 lateness_ms_p50=0 lateness_ms_max=0"},
		"paid, but its message never came": {nil, true, orders.Paid, 3,
			"demo: orders=1 closed=0 paid=1 lost=1 early=0 double=0 lateness_ms_p50=0 lateness_ms_max=0"},
		"stock lost": {on(3, orders.OutcomeClosed), false, orders.Closed, 3,
			"demo: orders=1 closed=1 paid=0 lost=1 early=0 double=0 lateness_ms_p50=3 lateness_ms_max=3"},
		"a millisecond early": {on(-1, orders.OutcomeClosed), false, orders.Closed, 5,
			"demo: orders=1 closed=1 paid=0 lost=0 early=1 double=0 lateness_ms_p50=-1 lateness_ms_max=-1"},
		"closed twice": {append(on(3, orders.OutcomeClosed), on(4, orders.OutcomeClosed)...), false, orders.Closed, 5,
			"demo: orders=1 closed=1 paid=0 lost=0 early=0 double=1 lateness_ms_p50=3 lateness_ms_max=4"},
		"closed over a payment": {on(3, orders.OutcomeClosed), true, orders.Closed, 5,
			"demo: orders=1 closed=1 paid=0 lost=0 early=0 double=1 lateness_ms_p50=3 lateness_ms_max=3"},
		"stock given back twice": {on(3, orders.OutcomeClosed), false, orders.Closed, 7,
			"demo: orders=1 closed=1 paid=0 lost=0 early=0 double=1 lateness_ms_p50=3 lateness_ms_max=3"},
	} {
		o := orders.Order{ID: "o-01", SKU: sku, Quantity: 2, State: c.state}
		r := row{planned: planned{order: o, delay: second}, placed: placed, delivered: c.delivered}
		if c.paid {
			r.paid = placed.Add(second / 2)
		}
		got := add([]row{r}, []orders.Order{o}, 5, c.left)
		if got.String() != c.want {
			t.Errorf("%s: got  %s\nwant %s", name, got, c.want)
		}
		if good := got.lost+got.early+got.double == 0; got.good() != good {
			t.Errorf("%s: good is %v", name, got.good())
		}
	}
}

func TestEarlyByThePublishersClock(t *testing.T) {
	t.Parallel()
	placed := time.Now()
	// The due time in the message is wrong, and so is the lateness.
	d := delivered{at: placed.Add(900 * time.Millisecond), lateness: 3 * time.Millisecond, outcome: orders.OutcomeClosed}
	o := orders.Order{ID: "o-01", Quantity: 1, State: orders.Closed}
	r := row{planned: planned{order: o, delay: time.Second}, placed: placed, delivered: []delivered{d}}
	if got := add([]row{r}, []orders.Order{o}, 1, 1); got.early != 1 {
		t.Errorf("got %v, want one early", got)
	}
}
