package history

import (
	"fmt"
	"math"
	"time"
)

// wrongChange objects to what was told of cancelling and rescheduling, and to what
// consumers dropped.
func (r *record) wrongChange() (why []string) {
	for i := range r.changes {
		c := &r.changes[i]
		switch {
		case c.late():
			why = append(why, r.untrulyLate(c)...)
		case c.outcome == RescheduleCancelled && !r.mayHave(Cancel, c.answered):
			why = append(why, "said to be cancelled, though nobody had cancelled it")
		case r.holds(c):
			why = append(why, r.defied(c)...)
		}
	}
	for _, e := range r.dropped {
		call := Cancel
		if e.Detail == DroppedRescheduled {
			call = Reschedule
		}
		if !r.mayHave(call, e.At) {
			why = append(why, fmt.Sprintf("%s dropped it as %s, which it was not", e.Who, e.Detail))
		}
	}
	return why
}

// cancelledFor objects to what is delivered after a cancellation that was answered before
// the message can have been due, and so reached all that was published by then: however
// often that was, and whatever way each copy took.
func (r *record) cancelledFor() (why []string) {
	for i := range r.changes {
		c := &r.changes[i]
		if c.outcome != Cancelled && c.outcome != Tombstoned || r.mayHave(Reschedule, math.MaxInt64) {
			continue
		}
		due := int64(math.MaxInt64)
		publishedLater := false
		for _, a := range r.attempts {
			if a.outcome == Refused {
				continue
			}
			begun := a.at
			if c.outcome == Tombstoned { // nothing was known of it
				begun = a.answered
			}
			publishedLater = publishedLater || begun == 0 || begun+max(0, a.ahead) >= c.at
			due = min(due, a.notBefore)
		}
		if publishedLater || due <= c.answered {
			continue
		}
		for _, e := range r.received {
			if e.At > c.answered {
				why = append(why, fmt.Sprintf("%s by %s, and received by %s after that", c.outcome, c.who, e.Who))
			}
		}
	}
	return why
}

// untrulyLate objects to an answer that the message was delivered.
func (r *record) untrulyLate(c *change) (why []string) {
	if len(r.received) == 0 {
		return []string{"said to be delivered, and never received"}
	}
	if early := r.bound(c.answered) - c.answered; early > 0 {
		why = append(why, fmt.Sprintf("said to be delivered %v before it could be", micros(early)))
	}
	if a := r.sole(); a != nil && !r.several(c.answered) && c.since > 0 && time.UnixMilli(c.since).After(time.UnixMicro(r.received[0].At)) {
		why = append(why, "received before it was delivered, as was said")
	}
	return why
}

// defied objects to deliveries in spite of a change that holds.
func (r *record) defied(c *change) (why []string) {
	last := r.last()
	for _, e := range r.received {
		switch {
		case c.outcome == Cancelled:
			why = append(why, "cancelled, but received by "+e.Who)
		case c.outcome == Tombstoned:
			why = append(why, "to be dropped, but received by "+e.Who)
		case e.At < c.at:
			why = append(why, fmt.Sprintf("%s, though %s had received it", c.outcome, e.Who))
		case c == last && c.outcome == Rescheduled && e.Attempt == 0 && e.Due > 0 && e.Due != c.due && !r.mayBeMoved(c):
			why = append(why, fmt.Sprintf("received by %s with another due time than the new one", e.Who))
		}
	}
	return why
}

// mayBeMoved says whether another reschedule than c may have the last word.
func (r *record) mayBeMoved(c *change) bool {
	for i := range r.changes {
		if o := &r.changes[i]; o.call == Reschedule && !o.inVain() && (o.at > c.at || o.outcome == "") {
			return true
		}
	}
	return false
}

// wrongCancel objects to an effect after the answer that there would be none,
// unless it can stem from an attempt that was not begun before the call.
func (r *record) wrongCancel() (why []string) {
	held := (*change)(nil)
	for i := range r.changes {
		if c := &r.changes[i]; c.outcome == Cancelled {
			held = c
			break
		}
	}
	if held == nil {
		return nil
	}
	first, answered := r.firstCall(Cancel), held.answered
	again := func(until int64) bool {
		if r.several(held.answered) {
			return true
		}
		candidates := r.candidates(until)
		for _, a := range candidates {
			if a.at >= first {
				return true
			}
		}
		return len(candidates) > 1 // messages of one ID, of which one is cancelled
	}
	for _, e := range r.effects {
		if !again(e.At) && (e.At >= first || !r.publishedAgain(e.At, answered)) {
			why = append(why, fmt.Sprintf("cancelled, but %s's effect was %q", e.Who, e.Detail))
		}
	}
	end := r.events[len(r.events)-1].At
	if len(why) == 0 && (r.state.State == StateClosed || r.state.Closings > 0) && !again(end) {
		why = append(why, "cancelled, but closed")
	}
	return why
}

// publishedAgain says whether somebody has published the order's message after an instant
// and up to another one: then it is that message which was cancelled, of an ID that was
// free again since the one before was handled.
func (r *record) publishedAgain(after, until int64) bool {
	for _, a := range r.candidates(until) {
		if a.at > after {
			return true
		}
	}
	return false
}

// firstCall returns when a change was asked for first, Unix microseconds.
func (r *record) firstCall(call Kind) int64 {
	for i := range r.changes {
		if r.changes[i].call == call {
			return r.changes[i].at
		}
	}
	return 0
}
