package checker

import (
	"fmt"
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/internal/fault/history"
)

const (
	// mostLate is how late an order may be while nothing is broken. That is generous, since
	// the machine has much else to do.
	mostLate = 10 * time.Second
	// usualAftermath is for how long orders may be late after a fault that says nothing
	// about that.
	usualAftermath = 10 * time.Second
	// mostHeldUp is how late an order may be while another one's queue answers nothing. That
	// is generous, since the machine has much else to do.
	mostHeldUp = 10 * time.Second
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

// heldUp objects to an order that a queue of others has held up, while that answered nothing:
// one that came late, or of which publishing was not confirmed.
func (r *record) heldUp(past *run) (why []string) {
	outages := past.outages
	for i, o := range outages {
		if o.fault.Queue == "" || o.fault.Queue == r.queue {
			continue
		}
		during := func(at int64) bool { return at >= o.fault.At && at < o.mended }
		for _, a := range r.attempts {
			end := a.answered
			if end == 0 { // its process was killed; when is not known
				end = a.at + mostHeldUp.Microseconds()
			}
			if during(a.at) && a.outcome == history.Unknown && !a.confirmed && !others(outages, i, a.at, end) {
				why = append(why, fmt.Sprintf("not confirmed to %s, while only %s answered nothing", a.who, o.fault.Queue))
			}
		}
		late, ok := r.lateness()
		if !ok || late <= mostHeldUp.Microseconds() {
			continue
		}
		if first := r.received[0]; during(first.At-late) && !others(outages, i, first.At-late, first.At) {
			why = append(why, fmt.Sprintf("received by %s %v late, while only %s answered nothing", first.Who, micros(late), o.fault.Queue))
		}
	}
	return why
}

// besideSilence says whether another order's queue answered nothing while the order waited.
func (r *record) besideSilence(past *run) bool {
	return r.placed && slices.ContainsFunc(past.outages, func(o outage) bool {
		return o.fault.Queue != "" && o.fault.Queue != r.queue && o.fault.At <= r.events[len(r.events)-1].At && o.mended >= r.events[0].At
	})
}

// others says whether another outage than that with an index was in force between two
// instants.
func others(outages []outage, but int, from, to int64) bool {
	for i, o := range outages {
		if i != but && o.fault.At <= to && o.mended >= from {
			return true
		}
	}
	return false
}
