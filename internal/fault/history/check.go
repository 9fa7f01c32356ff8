package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Check decides over a run. It may be asked in the middle of one, with what the
// servers hold at that instant, and then objects to what is still under way.
func Check(events []Event, final Final) *Report {
	events = slices.Clone(events)
	byTime(events)
	past := &run{records: map[string]*record{}, broken: map[string][]Violation{}, outages: outages(events)}
	report := &Report{runs: []*run{past}}
	var sequence []*record
	of := func(id string) *record {
		r, ok := past.records[id]
		if !ok {
			r = &record{id: id}
			past.records[id] = r
			sequence = append(sequence, r)
		}
		return r
	}
	for _, e := range events {
		switch e.Kind {
		case Fault:
			report.count(e.Act, Counts{Faults: 1})
		case Mended:
		default:
			of(e.Order).add(e)
			if e.Kind == Placed {
				report.act(e.Act) // acts in the order of appearance
			}
		}
	}
	for _, l := range final.Leftover {
		r := of(l.Order)
		r.left = append(r.left, l)
	}
	// A shop that was killed may have taken orders of which it says nothing.
	for _, id := range slices.Sorted(maps.Keys(final.Orders)) {
		of(id)
	}
	for _, r := range sequence {
		r.state, r.known = final.Orders[r.id]
		report.judge(past, r)
	}
	for _, line := range final.Stock {
		if line.Have != line.Want {
			why := fmt.Sprintf("%s: %d in stock, want %d", line.SKU, line.Have, line.Want)
			report.object(past, &record{}, KindWrong, []string{why})
		}
	}
	if len(final.Contradictions) > 0 {
		report.object(past, &record{}, KindWrong, final.Contradictions)
	}
	return report
}

// judge applies all rules to r and counts it.
func (r *Report) judge(past *run, o *record) {
	var c Counts
	if o.placed {
		c.Orders = 1
	}
	c.Duplicates = o.duplicates()
	if late, ok := o.lateness(); ok {
		c.Received, c.Worst = 1, micros(late)
	}
	r.count(o.act, c)
	r.object(past, o, KindLost, o.lost())
	r.object(past, o, KindEarly, o.early())
	r.object(past, o, KindDouble, o.double())
	r.object(past, o, KindWrong, slices.Concat(o.wrong(), o.copies(past.outages), o.heldUp(past.outages)))
}

// object adds one violation, if there is a reason why.
func (r *Report) object(past *run, o *record, kind ViolationKind, why []string) {
	if len(why) == 0 {
		return
	}
	v := Violation{Kind: kind, Order: o.id, Why: strings.Join(why, "; ")}
	r.Violations = append(r.Violations, v)
	past.broken[o.id] = append(past.broken[o.id], v)
	var c Counts
	switch kind {
	case KindLost:
		c.Lost = 1
	case KindEarly:
		c.Early = 1
	case KindDouble:
		c.Double = 1
	case KindWrong:
		c.Wrong = 1
	}
	r.count(o.act, c)
}
