package checker_test

import (
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/delaybridge/delaybridge/internal/fault/checker"
	"github.com/delaybridge/delaybridge/internal/fault/history"
)

// run is a history and what is left in the end.
type run struct {
	events []history.Event
	final  history.Final
}

const (
	order    = "o-1"
	customer = "customers/1"
	consumer = "consumer-1/1"
	asked    = 31_000_100 // not before, Unix microseconds
	due      = 31_001     // Unix milliseconds
)

// closedOrder is a run with one order that nobody pays.
func closedOrder() *run {
	return &run{
		events: []history.Event{
			{At: 1_000_000, Who: customer, Kind: history.Placed, Order: order, Act: "calm"},
			{At: 1_000_100, Who: customer, Kind: history.Publish, Order: order, NotBefore: asked},
			{At: 1_001_000, Who: customer, Kind: history.Published, Order: order, Due: due},
			{At: 31_002_000, Who: consumer, Kind: history.Received, Order: order, Due: due, Intact: true},
			{At: 31_003_000, Who: consumer, Kind: history.Effect, Order: order, Detail: history.EffectClosed},
			{At: 31_004_000, Who: consumer, Kind: history.Acknowledged, Order: order},
		},
		final: history.Final{
			Orders:    map[string]history.OrderState{order: {State: history.StateClosed, Closings: 1}},
			Stock:     []history.StockLine{{SKU: "sku-1", Want: 10, Have: 10}},
			Processes: []history.Process{{Name: "bridge-1", Old: 130, Fresh: 50}},
		},
	}
}

// paidOrder is a run with one order that is paid in time.
func paidOrder() *run {
	r := closedOrder()
	r.change(history.Effect, func(e *history.Event) { e.Detail = history.EffectLeftAlone })
	r.add(2_000_000, customer, history.Pay)
	r.add(2_000_500, customer, history.Paid)
	r.state(history.StatePaid, 0)
	return r
}

// refusedPayment is a run with one order that is paid too late.
func refusedPayment() *run {
	r := closedOrder()
	r.add(31_002_500, customer, history.Pay)
	r.add(31_003_500, customer, history.PayRefused)
	return r
}

func (r *run) add(at int64, who string, kind history.Kind) *history.Event {
	r.events = append(r.events, history.Event{At: at, Who: who, Kind: kind, Order: order})
	return &r.events[len(r.events)-1]
}

// fault adds one that is over at once.
func (r *run) fault(at int64, what string) { r.add(at, "injector", history.Fault).Detail = what }

// attempt adds a call of publish whose outcome comes a millisecond later; none if "".
func (r *run) attempt(at, notBefore int64, outcome history.Kind, due int64) {
	r.add(at, customer, history.Publish).NotBefore = notBefore
	if outcome != "" {
		r.add(at+1000, customer, outcome).Due = due
	}
}

// deliver adds a delivery with its effect.
func (r *run) deliver(at int64, who, effect string) {
	e := r.add(at, who, history.Received)
	e.Intact, e.Due = true, due
	r.add(at+100, who, history.Effect).Detail = effect
	r.add(at+200, who, history.Acknowledged)
}

// cancel adds a call of cancel whose outcome comes 100 microseconds later; none if "".
func (r *run) cancel(at int64, outcome history.Kind) *history.Event {
	e := r.add(at, customer, history.Cancel)
	if outcome != "" {
		e = r.add(at+100, customer, outcome)
	}
	return e
}

// reschedule adds a call of reschedule likewise. The due time is in milliseconds.
func (r *run) reschedule(at, due int64, outcome history.Kind) *history.Event {
	e := r.add(at, customer, history.Reschedule)
	e.NotBefore = 1000 * due
	if outcome != "" {
		e = r.add(at+100, customer, outcome)
	}
	if outcome == history.Rescheduled || outcome == history.Noted {
		e.Due = due
	}
	return e
}

// movedOrder is a run with one order that is rescheduled in time, to come later.
func movedOrder() *run {
	r := closedOrder()
	r.reschedule(2_000_000, due+5000, history.Rescheduled)
	r.drop(history.Received, history.Effect, history.Acknowledged)
	r.deliver(1000*(due+5000)+2000, consumer, history.EffectClosed)
	r.change(history.Received, func(e *history.Event) { e.Due = due + 5000 })
	return r
}

// retriedOrder is a run with one order whose handler fails once, and says when to
// try again.
func retriedOrder() *run {
	r := closedOrder()
	r.drop(history.Effect, history.Acknowledged)
	r.add(31_003_000, consumer, history.Failed).NotBefore = 32_000_000
	r.deliver(32_001_000, other, history.EffectClosed)
	e := &r.events[len(r.events)-3]
	e.Attempt, e.Due = 1, 32_000
	return r
}

// rejectedOrder is a run with one order whose handler rejects the message.
func rejectedOrder() *run {
	r := closedOrder()
	r.drop(history.Effect, history.Acknowledged)
	r.add(31_003_000, consumer, history.Rejected).Detail = "spoilt"
	r.leave("delaybridge.quarantine", order, "it is spoilt")
	r.state(history.StatePending, 0)
	return r
}

func (r *run) change(kind history.Kind, how func(*history.Event)) {
	for i := range r.events {
		if r.events[i].Kind == kind {
			how(&r.events[i])
		}
	}
}

func (r *run) drop(kinds ...history.Kind) {
	r.events = slices.DeleteFunc(r.events, func(e history.Event) bool { return slices.Contains(kinds, e.Kind) })
}

func (r *run) state(state string, closings int) {
	r.final.Orders[order] = history.OrderState{State: state, Closings: closings}
}

func (r *run) leave(where, id, reason string) {
	r.final.Leftover = append(r.final.Leftover, history.Left{Where: where, Order: id, Reason: reason})
}

// check decides over r and compares kinds and orders of the violations with want,
// such as "lost o-1".
func (r *run) check(t rapid.TB, want ...string) *checker.Report {
	t.Helper()
	report := checker.Check(r.events, r.final)
	var got []string
	for _, v := range report.Violations {
		got = append(got, strings.TrimSpace(string(v.Kind)+" "+v.Order))
	}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q: %v", got, want, report.Violations)
	}
	count := map[string]int{}
	for _, w := range want {
		kind, _, _ := strings.Cut(w, " ")
		count[kind]++
	}
	if report.Lost != count["lost"] || report.Early != count["early"] || report.Double != count["double"] || report.Wrong != count["wrong"] || report.Late != count["late"] {
		t.Errorf("counted %+v, want %v", report.Counts, count)
	}
	return report
}
