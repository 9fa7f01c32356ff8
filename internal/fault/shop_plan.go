package fault

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/consumer/orders"
	"github.com/delaybridge/delaybridge/internal/fault/history"
)

func planOrder(seed uint64, n int) customerOrder {
	rng := rand.New(rand.NewPCG(seed, uint64(n)+1))
	o := customerOrder{
		Order: orders.Order{ID: orderID(n), SKU: sku(rng.IntN(skus)), Quantity: 1 + rng.IntN(3)},
		key:   []string{closingKey, mailKey}[rng.IntN(2)],
		pays:  rng.IntN(10) < 3, insists: rng.IntN(10) < 8,
	}
	switch p := rng.IntN(20); {
	case p < 4:
		o.way = wayProducer
	case p < 8:
		o.way = wayTracked
	case p < 15:
		o.way = wayEntry
	case p < 17:
		o.way = wayNoID
	case p < 19:
		o.way = wayInstant
	default:
		o.way = wayEntryAt
	}
	switch p := rng.IntN(20); {
	case p < 7:
		o.delay = tiers()[rng.IntN(len(tiers()))]
	case p < 19:
		o.delay = time.Duration(100+rng.Int64N(longestOrder.Milliseconds()-100)) * time.Millisecond
	}
	if rng.IntN(15) == 0 { // for a queue that may answer nothing, which is to be met on each way
		o.key = slowKey
		if rng.IntN(2) == 0 {
			o.delay = []time.Duration{0, 500 * time.Millisecond}[rng.IntN(2)]
		}
		if strings.HasPrefix(string(o.way), history.ThroughInbox) && o.delay == 0 {
			// The broker alone would take it to its queue, on a channel that is not ours.
			o.delay = 500 * time.Millisecond
		}
	} else if rng.IntN(10) == 0 {
		o.key = plainKey
	}
	if strings.HasPrefix(string(o.way), history.ThroughInbox) && o.queue() == queue && rng.IntN(2) == 0 {
		o.entry = trackedEntry().Name
	}
	if rng.IntN(10) == 0 && n > 0 {
		before := planOrder(seed, n-1)
		o.shares = o.mayShare() && before.mayShare() && !before.shares && o.key != mailKey // where a ledger goes by the ID
	}
	if o.way == wayNoID && o.key == mailKey {
		o.key = closingKey // a ledger needs IDs
	}
	o.payIn = time.Duration(rng.Int64N(int64(o.delay + 500*time.Millisecond)))
	if o.planChanges(rng); o.way == wayNoID || o.shares {
		o.changes = [2]change{} // nobody knows by which ID to ask for it, or the other customer does
	}
	if rng.IntN(10) < 2 {
		o.fails = 1 + rng.IntN(2)
	}
	o.rejected = rng.IntN(25) == 0
	if o.repeats = rng.IntN(5) == 0; o.repeats {
		// One in three when the first message has come, as a rule: then it is another one.
		o.repeatIn = time.Duration(rng.Int64N(int64(o.delay*3/2 + time.Second)))
	}
	if o.looks = rng.IntN(4) == 0 && o.way != wayNoID; o.looks {
		o.lookIn = time.Duration(rng.Int64N(int64(o.delay + time.Second)))
	}
	if rng.IntN(100) == 0 {
		o.bulk = 1 + rng.IntN(largeBody)
	}
	if rng.IntN(20) == 0 {
		o.wait = time.Duration(rng.Int64N(longestWait.Milliseconds())) * time.Millisecond
	}
	if o.way == wayTracked && !o.shares && rng.IntN(3) == 0 {
		o.way, o.repeats = wayOutbox, false
	}
	if last := o.lastChange(); last.does == reschedules && o.way == wayEntry && rng.IntN(2) == 0 {
		// What comes out of a tier too early is parked, and delivered under its new version; then a
		// new message comes out of the tier.
		last.to = min(max(last.to, o.delay+time.Duration(rng.Int64N(1000))*time.Millisecond), longestOrder)
		o.repeats, o.repeatIn = true, last.in+last.to+time.Duration(rng.Int64N(int64(2*time.Second)))
	}
	return o
}

func (o *customerOrder) lastChange() *change {
	if o.changes[1].does != "" {
		return &o.changes[1]
	}
	return &o.changes[0]
}

// planChanges has half of the customers change their minds, once or twice, at any
// time: at once, on the way, when the message is about to come, and after that.
func (o *customerOrder) planChanges(rng *rand.Rand) {
	switch p := rng.IntN(20); {
	case p < 10:
		return
	case p < 13:
		o.changes[0].does = cancels
	case p < 16:
		o.changes[0].does = reschedules
	case p < 18:
		o.changes[0].does, o.changes[1].does = reschedules, reschedules
	case p < 19:
		o.changes[0].does, o.changes[1].does = reschedules, cancels
	default:
		o.changes[0].does, o.changes[1].does = cancels, cancels
	}
	due := o.delay
	for i := range o.changes {
		c := &o.changes[i]
		if c.does == "" {
			break
		}
		switch rng.IntN(4) {
		case 0:
			c.in = time.Duration(rng.Int64N(int64(50 * time.Millisecond)))
		case 1, 2:
			c.in = time.Duration(rng.Int64N(int64(due + time.Second)))
		case 3:
			c.in = around(rng, due)
		}
		if i > 0 {
			c.in = max(c.in, o.changes[i-1].in)
		}
		if c.does == reschedules {
			switch rng.IntN(5) {
			case 0:
				c.to = time.Duration(rng.Int64N(int64(500 * time.Millisecond)))
			case 1, 2:
				c.to = time.Duration(rng.Int64N(int64(longestOrder - 2*time.Second)))
			case 3:
				c.to = tiers()[rng.IntN(len(tiers()))]
			case 4:
				c.to = around(rng, due-c.in)
			}
			c.to = min(c.to, longestOrder).Truncate(time.Millisecond)
			c.instant = rng.IntN(2) == 0
			due = c.in + c.to
		}
	}
}

// around returns about d, give or take 50 ms, and not less than 0.
func around(rng *rand.Rand, d time.Duration) time.Duration {
	return max(0, d+time.Duration(rng.Int64N(int64(100*time.Millisecond)))-50*time.Millisecond)
}

// failure is how an attempt to handle a message fails.
type failure int

// planFailure says how an attempt fails, and when to try again if the handler says so.
func planFailure(seed uint64, n, attempt int) (failure, time.Duration) {
	rng := rand.New(rand.NewPCG(seed, uint64(n)<<16+uint64(attempt)))
	return failure(rng.IntN(3)), time.Duration(rng.Int64N(int64(2 * time.Second)))
}
