package checker

import (
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/internal/fault/history"
)

// replicates is within what a replica of Redis has what its primary has been told.
const replicates = time.Second

// lose takes back what Redis was told while it lost writes: it is not known any more whether that
// has happened. A message that the broker had taken into the inbox, or a database into an outbox, was told to
// Redis by a bridge or a relay, some time after that.
func (r *record) lose(o *outage) {
	if !o.fault.Loses {
		return
	}
	from := o.fault.At - replicates.Microseconds()
	during := func(at, answered, from int64) bool { return at <= o.mended && (answered == 0 || answered >= from) }
	for i := range r.attempts {
		a, since := &r.attempts[i], from
		if r.inbox || r.outbox {
			since -= handsOver.Microseconds()
		}
		if a.outcome == history.Published && (during(a.at, a.answered, since) || a.at <= o.mended && r.leftToRedis(from, o.mended)) {
			a.outcome = history.Unknown
		}
	}
	for _, events := range [][]history.Event{r.received, r.dropped, r.failed} {
		for _, e := range events {
			r.mayHaveLost = r.mayHaveLost || e.At >= from && e.At <= o.mended
		}
	}
	// Redis may not know any more that the message has come, and takes a later one with its ID and its content for a copy
	// of it with the old due time.
	for i := range r.attempts {
		if a := &r.attempts[i]; r.mayHaveLost && a.outcome == history.Published && a.at > o.mended && r.tookForCopy(a.at) {
			a.outcome = history.Unknown
		}
	}
	for i := range r.changes {
		if c := &r.changes[i]; during(c.at, c.answered, from) || r.mayHaveLost && c.at >= from {
			c.lose()
		}
	}
	if r.mayHaveLost {
		r.looks = nil
	}
}

// tookForCopy says whether a consumer was told since an instant to drop a message as one that was rescheduled.
func (r *record) tookForCopy(since int64) bool {
	return slices.ContainsFunc(r.dropped, func(e history.Event) bool { return e.Detail == history.DroppedRescheduled && e.At >= since })
}

// lose makes the outcome of a change unknown.
func (c *change) lose() { c.outcome, c.due, c.lost = "", 0, true }

// forget takes back each change of an order that was under way while changes were forgotten.
func (r *record) forget(o *outage) {
	if !o.fault.Forgets || !r.underWay(o) {
		return
	}
	for i := range r.changes {
		if c := &r.changes[i]; c.at <= o.mended {
			c.lose()
		}
	}
	r.looks = nil
}

// underWay says whether anything may have happened to an order during an outage.
func (r *record) underWay(o *outage) bool {
	return r.events[0].At <= o.mended && r.events[len(r.events)-1].At >= o.fault.At
}

// step takes down that the clock of Redis was wrong.
func (r *record) step(o *outage) {
	// By a clock that was set back a later message with its ID may seem to have been published before it came.
	for i := range r.attempts {
		a := &r.attempts[i]
		if o.fault.Steps == 0 || a.outcome != history.Published {
			continue
		}
		if a.at <= o.mended && len(r.received) > 0 && r.tookForCopy(max(a.at, o.fault.At)) || r.waitsAgain(a, o) {
			a.outcome = history.Unknown
		}
	}
	if r.underWay(o) {
		r.clockAhead, r.clockBehind = max(r.clockAhead, o.fault.Steps), max(r.clockBehind, -o.fault.Steps)
	}
}

// waitsAgain says whether a message had come, and waited in Redis once more when it was published again, since the
// clock was set back: a repetition until it is due is that message, and has its due time where that is answered.
func (r *record) waitsAgain(a *attempt, o *outage) bool {
	clock, inbox := a.at, a.due == 0 // from where a bridge takes it at any time
	if o.fault.Steps < 0 && (inbox || a.answered >= o.fault.At) && a.at <= o.mended {
		clock += o.fault.Steps
	}
	return r.underWay(o) && slices.ContainsFunc(r.received, func(e history.Event) bool {
		return e.Attempt == 0 && e.At < a.at && (inbox || e.Due == a.due) && 1000*e.Due > clock
	})
}

// wrongClock returns by how many microseconds an order may have come too early by the clock of
// Redis, which may have been behind when the order was parked, and ahead when it was promoted.
func (r *record) wrongClock() int64 { return r.clockAhead + r.clockBehind }

// leftToRedis says whether a consumer was told in a stretch of time to drop a copy since the
// message was rescheduled, and none later. Redis alone may have had the message then, and
// Redis may have lost the reschedule.
func (r *record) leftToRedis(from, to int64) bool {
	var last int64
	for _, e := range r.dropped {
		if e.Detail == history.DroppedRescheduled {
			last = e.At
		}
	}
	return last >= from && last <= to
}
