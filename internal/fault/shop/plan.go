package shop

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/consumer/orders"
	"github.com/delaybridge/delaybridge/internal/fault/history"
)

// PlanOrder returns order n of a run with this seed.
func PlanOrder(seed uint64, n int) Order {
	rng := rand.New(rand.NewPCG(seed, uint64(n)+1))
	o := Order{
		Order: orders.Order{ID: OrderID(n), SKU: sku(rng.IntN(skus)), Quantity: 1 + rng.IntN(3)},
		key:   []string{ClosingKey, MailKey}[rng.IntN(2)],
		Pays:  rng.IntN(10) < 3, Insists: rng.IntN(10) < 8,
	}
	switch p := rng.IntN(20); {
	case p < 4:
		o.Way = WayProducer
	case p < 8:
		o.Way = WayTracked
	case p < 15:
		o.Way = WayEntry
	case p < 17:
		o.Way = WayNoID
	case p < 19:
		o.Way = WayInstant
	default:
		o.Way = WayEntryAt
	}
	switch p := rng.IntN(20); {
	case p < 7:
		o.Delay = Tiers()[rng.IntN(len(Tiers()))]
	case p < 19:
		o.Delay = time.Duration(100+rng.Int64N(LongestOrder.Milliseconds()-100)) * time.Millisecond
	}
	if rng.IntN(15) == 0 { // for a queue that may answer nothing, which is to be met on each way
		o.key = SlowKey
		if rng.IntN(2) == 0 {
			o.Delay = []time.Duration{0, 500 * time.Millisecond}[rng.IntN(2)]
		}
		if strings.HasPrefix(string(o.Way), history.ThroughInbox) && o.Delay == 0 {
			// The broker alone would take it to its queue, on a channel that is not ours.
			o.Delay = 500 * time.Millisecond
		}
	} else if rng.IntN(10) == 0 {
		o.key = PlainKey
	}
	if strings.HasPrefix(string(o.Way), history.ThroughInbox) && o.Queue() == Queue && rng.IntN(2) == 0 {
		o.Entry = TrackedEntry().Name
	}
	if rng.IntN(10) == 0 && n > 0 {
		before := PlanOrder(seed, n-1)
		o.Shares = o.mayShare() && before.mayShare() && !before.Shares && o.key != MailKey // where a ledger goes by the ID
	}
	if o.Way == WayNoID && o.key == MailKey {
		o.key = ClosingKey // a ledger needs IDs
	}
	o.PayIn = time.Duration(rng.Int64N(int64(o.Delay + 500*time.Millisecond)))
	if o.planChanges(rng); o.Way == WayNoID || o.Shares {
		o.Changes = [2]Change{} // it is unknown by which ID to ask for it, or the other customer does
	}
	if rng.IntN(10) < 2 {
		o.Fails = 1 + rng.IntN(2)
	}
	o.Rejected = rng.IntN(25) == 0
	if o.Repeats = rng.IntN(5) == 0; o.Repeats {
		// One in three when the first message has come, as a rule: then it is another one.
		o.RepeatIn = time.Duration(rng.Int64N(int64(o.Delay*3/2 + time.Second)))
	}
	if o.Looks = rng.IntN(4) == 0 && o.Way != WayNoID; o.Looks {
		o.LookIn = time.Duration(rng.Int64N(int64(o.Delay + time.Second)))
	}
	if rng.IntN(100) == 0 {
		o.bulk = 1 + rng.IntN(largeBody)
	}
	if rng.IntN(20) == 0 {
		o.Wait = time.Duration(rng.Int64N(longestWait.Milliseconds())) * time.Millisecond
	}
	if o.Way == WayTracked && !o.Shares && rng.IntN(3) == 0 {
		o.Way, o.Repeats = WayOutbox, false
	}
	if last := o.lastChange(); last.Does == Reschedules && o.Way == WayEntry && rng.IntN(2) == 0 {
		// What comes out of a tier too early is parked, and delivered under its new version; then a
		// new message comes out of the tier.
		last.To = min(max(last.To, o.Delay+time.Duration(rng.Int64N(1000))*time.Millisecond), LongestOrder)
		o.Repeats, o.RepeatIn = true, last.In+last.To+time.Duration(rng.Int64N(int64(2*time.Second)))
	}
	return o
}

func (o *Order) lastChange() *Change {
	if o.Changes[1].Does != "" {
		return &o.Changes[1]
	}
	return &o.Changes[0]
}

// planChanges has half of the customers change their minds, once or twice, at any
// time: at once, on the way, when the message is about to come, and after that.
func (o *Order) planChanges(rng *rand.Rand) {
	switch p := rng.IntN(20); {
	case p < 10:
		return
	case p < 13:
		o.Changes[0].Does = Cancels
	case p < 16:
		o.Changes[0].Does = Reschedules
	case p < 18:
		o.Changes[0].Does, o.Changes[1].Does = Reschedules, Reschedules
	case p < 19:
		o.Changes[0].Does, o.Changes[1].Does = Reschedules, Cancels
	default:
		o.Changes[0].Does, o.Changes[1].Does = Cancels, Cancels
	}
	due := o.Delay
	for i := range o.Changes {
		c := &o.Changes[i]
		if c.Does == "" {
			break
		}
		switch rng.IntN(4) {
		case 0:
			c.In = time.Duration(rng.Int64N(int64(50 * time.Millisecond)))
		case 1, 2:
			c.In = time.Duration(rng.Int64N(int64(due + time.Second)))
		case 3:
			c.In = around(rng, due)
		}
		if i > 0 {
			c.In = max(c.In, o.Changes[i-1].In)
		}
		if c.Does == Reschedules {
			switch rng.IntN(5) {
			case 0:
				c.To = time.Duration(rng.Int64N(int64(500 * time.Millisecond)))
			case 1, 2:
				c.To = time.Duration(rng.Int64N(int64(LongestOrder - 2*time.Second)))
			case 3:
				c.To = Tiers()[rng.IntN(len(Tiers()))]
			case 4:
				c.To = around(rng, due-c.In)
			}
			c.To = min(c.To, LongestOrder).Truncate(time.Millisecond)
			c.Instant = rng.IntN(2) == 0
			due = c.In + c.To
		}
	}
}

// around returns about d, give or take 50 ms, and not less than 0.
func around(rng *rand.Rand, d time.Duration) time.Duration {
	return max(0, d+time.Duration(rng.Int64N(int64(100*time.Millisecond)))-50*time.Millisecond)
}

// Failure is how an attempt to handle a message fails.
type Failure int

// The failures.
const (
	FailsPlainly Failure = iota
	FailsForNow          // and says when to try again
	FailsInPanic
)

// PlanFailure says how an attempt fails, and when to try again if the handler says so.
func PlanFailure(seed uint64, n, attempt int) (Failure, time.Duration) {
	rng := rand.New(rand.NewPCG(seed, uint64(n)<<16+uint64(attempt)))
	return Failure(rng.IntN(3)), time.Duration(rng.Int64N(int64(2 * time.Second)))
}
