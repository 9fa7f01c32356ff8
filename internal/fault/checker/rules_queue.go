package checker

import (
	"fmt"
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/internal/fault/history"
)

// mostHeldUp is how late an order may be while another one's queue answers nothing. That is
// generous, since the machine has much else to do.
const mostHeldUp = 10 * time.Second

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
