package checker

import (
	"fmt"
	"time"
)

const (
	// mostLate is how late an order may be while nothing is broken. That is generous, since
	// the machine has much else to do.
	mostLate = 10 * time.Second
	// usualAftermath is for how long orders may be late after a fault that says nothing
	// about that.
	usualAftermath = 10 * time.Second
)

// late objects to an order that came late, and nothing was the reason: for longer than it may
// be late nothing was broken, and no fault was so fresh that it could still be felt.
func (r *record) late(past *run) []string {
	late, ok := r.lateness()
	if !ok || late <= mostLate.Microseconds() || r.mayBeCancelled() {
		return nil
	}
	first := r.received[0]
	calm := past.longestCalm(first.At-late, first.At)
	if calm <= mostLate.Microseconds() {
		return nil
	}
	return []string{fmt.Sprintf("received by %s %v late, though nothing was broken for %v of that", first.Who, micros(late), micros(calm))}
}

// dueInCalm says whether the order was due while nothing was broken, and came.
func (r *record) dueInCalm(past *run) bool {
	late, ok := r.lateness()
	return ok && past.longestCalm(r.received[0].At-late, r.received[0].At-late+1) > 0
}

// longestCalm returns for how many microseconds on end no fault could be felt between two
// instants.
func (r *run) longestCalm(from, to int64) (longest int64) {
	for _, o := range r.outages { // in the order in which they began
		longest = max(longest, min(o.fault.At, to)-from)
		from = max(from, o.felt())
	}
	return max(longest, to-from)
}

// felt returns until when, in Unix microseconds, orders may be late for an outage.
func (o *outage) felt() int64 {
	aftermath := o.fault.Aftermath
	if aftermath == 0 {
		aftermath = usualAftermath.Microseconds()
	}
	return o.mended + aftermath
}
