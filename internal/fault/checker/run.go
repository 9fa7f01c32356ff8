package checker

import (
	"slices"

	"github.com/delaybridge/delaybridge/internal/fault/history"
)

// run is all that is known of a run: what the rules judge by, and a story is told from.
type run struct {
	events   []history.Event // in the order of time
	records  map[string]*record
	sequence []*record // in the order of appearance
	outages  []outage
	lists    map[string]int64 // when each process last began to list, Unix microseconds
	broken   map[string][]Violation
}

// runOf puts events in order, by time and by order.
func runOf(events []history.Event) *run {
	events = slices.Clone(events)
	history.Sort(events)
	past := &run{events: events, records: map[string]*record{}, broken: map[string][]Violation{}, outages: outages(events), lists: map[string]int64{}}
	for _, e := range events {
		switch e.Kind {
		case history.Fault, history.Mended:
		case history.List, history.Listed:
			past.list(&e)
		default:
			past.of(e.Order).add(e)
		}
	}
	for _, r := range past.sequence {
		if twin := past.records[history.OrderOf(r.id)]; twin != nil && twin != r {
			r.twin, twin.twin = twin, r
			r.elsewhere, twin.elsewhere = twin.cameSplit(past.outages), r.cameSplit(past.outages)
		}
		for i := range past.outages {
			r.lose(&past.outages[i])
			r.step(&past.outages[i])
			r.forget(&past.outages[i])
		}
	}
	for _, r := range past.sequence {
		if other := past.records[r.sharesID]; other != nil && r.sharesID != "" {
			r.shared, other.shared = true, true
			if other.twin != nil {
				other.twin.shared = true
			}
		}
	}
	return past
}

// of returns the record of an order, which is new if there is none yet.
func (r *run) of(id string) *record {
	o, ok := r.records[id]
	if !ok {
		o = &record{id: id}
		r.records[id] = o
		r.sequence = append(r.sequence, o)
	}
	return o
}

// outage is a fault and when it was mended.
type outage struct {
	fault  history.Event
	mended int64 // Unix microseconds; that of the fault if it was never mended
}

// outages pairs faults with what mended them. One that was not mended, such as a
// kill, is over at once.
func outages(events []history.Event) []outage {
	var found []outage
	open := map[[2]string][]int{}
	for _, e := range events {
		key := [2]string{e.Who, e.Detail}
		switch e.Kind {
		case history.Fault:
			open[key] = append(open[key], len(found))
			found = append(found, outage{e, e.At})
		case history.Mended:
			if first := open[key]; len(first) > 0 {
				found[first[0]].mended = e.At
				open[key] = first[1:]
			}
		default:
		}
	}
	return found
}
