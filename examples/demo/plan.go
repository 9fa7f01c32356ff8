package main

import (
	"fmt"
	"time"

	"github.com/delaybridge/delaybridge/consumer/orders"
)

// planned is one order and what its customer is going to do.
type planned struct {
	order orders.Order
	// delay is how long the customer has to pay.
	delay time.Duration
	// absolute says the delay as an instant.
	absolute bool
	// pays is how long after placing the order the customer pays, or tries to;
	// never where it is 0.
	pays time.Duration
	// twice has the message published a second time, as after a lost answer.
	twice bool
}

const (
	sku     = "teapot"
	between = 100 * time.Millisecond // from one order to the next
)

// plan is the demo's customers. Their delays cover every path.
func plan() []planned {
	customers := []planned{
		{delay: 0},
		{delay: 300 * time.Millisecond}, // shorter than the smallest tier
		{delay: 750 * time.Millisecond},
		{delay: time.Second, pays: 2 * time.Second}, // too late: refused
		{delay: time.Second},
		{delay: 2500 * time.Millisecond}, // between two tiers
		{delay: 5 * time.Second},
		{delay: 5 * time.Second, twice: true},                   // two messages, one effect
		{delay: 5 * time.Second, pays: 4900 * time.Millisecond}, // at the last moment
		{delay: 7300 * time.Millisecond, twice: true},           // Redis keeps one
		{delay: 7300 * time.Millisecond, pays: 3 * time.Second}, // while it is parked, or in its lane
		{delay: 10 * time.Second},
		{delay: 10 * time.Second, pays: 2 * time.Second},
		{delay: 12700 * time.Millisecond},
		{delay: 15 * time.Second, absolute: true},
		{delay: 18 * time.Second, pays: 18100 * time.Millisecond}, // just too late
		{delay: 22 * time.Second},
		{delay: 30 * time.Second},
		{delay: 30 * time.Second, pays: 20 * time.Second},
		{delay: 33 * time.Second},
	}
	for i := range customers {
		customers[i].order = orders.Order{ID: fmt.Sprintf("o-%02d", i+1), SKU: sku, Quantity: 1 + i%3}
	}
	return customers
}

// pieces is the stock that serves all customers exactly.
func pieces(customers []planned) (n int) {
	for _, c := range customers {
		n += c.order.Quantity
	}
	return n
}

// messages is how many deliveries will come for c: a tier passes both copies
// on, Redis keeps one.
func (c *planned) messages(tier bool) int {
	if c.twice && tier {
		return 2
	}
	return 1
}

// when is the delay as people write it; = marks one that is said as an instant.
func (c *planned) when() string {
	if c.absolute {
		return "=" + c.delay.String()
	}
	return c.delay.String()
}
