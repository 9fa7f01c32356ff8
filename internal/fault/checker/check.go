package checker

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/delaybridge/delaybridge/internal/fault/history"
)

// Check decides over a run. It may be asked in the middle of one, with what the
// servers hold at that instant, and then objects to what is still under way.
func Check(events []history.Event, final history.Final) *Report {
	past := runOf(events)
	report := &Report{runs: []*run{past}}
	for _, e := range past.events {
		switch e.Kind {
		case history.Fault:
			report.count(e.Act, Counts{Faults: 1})
		case history.Placed:
			report.act(e.Act) // acts in the order of appearance
		default:
		}
	}
	for _, l := range final.Leftover {
		r := past.of(l.Order)
		r.left = append(r.left, l)
	}
	// A shop that was killed may have taken orders of which it says nothing.
	for _, id := range slices.Sorted(maps.Keys(final.Orders)) {
		past.of(id)
	}
	for _, r := range past.sequence {
		r.state, r.known = final.Orders[r.id]
		r.tombstone = final.Tombstones == nil || slices.Contains(final.Tombstones, r.id)
		report.judge(past, r)
	}
	report.judgeFinal(past, &final)
	return report
}

// Underway counts the orders to which something must still happen: whose message was published
// and has not come since, or has come and had neither an effect nor was rejected.
func Underway(events []history.Event) (n int) {
	past := runOf(events)
	for _, r := range past.sequence {
		r.tombstone = true // a cancel without an answer may have happened
		idle := len(r.effects) == 0 && len(r.rejected) == 0 && !r.mayBeCancelled() && !r.mayHaveLost
		if len(r.missing()) > 0 || len(r.received) > 0 && idle {
			n++
		}
	}
	return n
}

// Overdue counts the orders of which no consumer has seen a message that must have come by an
// instant: each attempt to publish it succeeded, and no change was tried.
func Overdue(events []history.Event, at int64) (n int) {
	past := runOf(events)
	for _, r := range past.sequence {
		must := len(r.attempts) > 0 && len(r.received) == 0 && len(r.changes) == 0 && len(r.missing()) > 0
		for _, a := range r.attempts {
			must = must && a.outcome == history.Published && a.notBefore < at
		}
		if must {
			n++
		}
	}
	return n
}

// judge applies all rules to r and counts it.
func (r *Report) judge(past *run, o *record) {
	var c Counts
	if o.placed && history.OrderOf(o.id) == o.id {
		c.Orders = 1
	}
	c.Duplicates = o.duplicates()
	if late, ok := o.lateness(); ok {
		c.Received, c.Worst = 1, micros(late)
	}
	r.count(o.act, c)
	all := rules()
	for _, kind := range []ViolationKind{KindLost, KindEarly, KindDouble, KindWrong, KindLate} {
		var names, why []string
		for _, rule := range all {
			if rule.kind != kind {
				continue
			}
			found := rule.objects(o, past)
			if len(found) > 0 {
				names, why = append(names, rule.name), append(why, found...)
			}
			r.judged(rule.name, rule.judges(o, past) || len(found) > 0, len(found) > 0)
		}
		r.object(past, o, kind, names, why)
	}
}

// spare is how many goroutines a process may have more than when it was started anew. A bridge
// opens the channel of a lane when it first needs it: it had 70 goroutines after a run, and 32
// when it was started anew.
const spare = 80

// judgeFinal applies the rules over what the servers hold.
func (r *Report) judgeFinal(past *run, final *history.Final) {
	for _, line := range final.Stock {
		var why []string
		if line.Have != line.Want {
			why = []string{fmt.Sprintf("%s: %d in stock, want %d", line.SKU, line.Have, line.Want)}
		}
		r.judged(RuleStock, true, len(why) > 0)
		r.object(past, &record{}, KindWrong, []string{RuleStock}, why)
	}
	r.judged(RuleKeys, true, len(final.Contradictions) > 0)
	r.object(past, &record{}, KindWrong, []string{RuleKeys}, final.Contradictions)
	for _, p := range final.Processes {
		var why []string
		if p.Old > p.Fresh+spare {
			why = []string{fmt.Sprintf("%s has %d goroutines at rest, and %d when it was started anew", p.Name, p.Old, p.Fresh)}
		}
		r.judged(RuleGoroutines, true, len(why) > 0)
		r.object(past, &record{}, KindWrong, []string{RuleGoroutines}, why)
	}
}

// judged notes down what a rule has decided over one order, article or store.
func (r *Report) judged(rule string, judged, broken bool) {
	c := RuleCount{Rule: rule}
	if judged {
		c.Judged = 1
	}
	if broken {
		c.Broken = 1
	}
	r.decided(c)
}

// decided adds to what a rule has decided.
func (r *Report) decided(more RuleCount) {
	i := slices.IndexFunc(r.Rules, func(c RuleCount) bool { return c.Rule == more.Rule })
	if i < 0 {
		r.Rules = append(r.Rules, more)
		return
	}
	r.Rules[i].Judged += more.Judged
	r.Rules[i].Broken += more.Broken
}

// object adds one violation, if there is a reason why.
func (r *Report) object(past *run, o *record, kind ViolationKind, rules, why []string) {
	if len(why) == 0 {
		return
	}
	v := Violation{Kind: kind, Order: o.id, Rules: rules, Why: strings.Join(why, "; ")}
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
	case KindLate:
		c.Late = 1
	}
	r.count(o.act, c)
}
