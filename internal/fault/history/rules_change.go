package history

import (
	"fmt"
	"math"
	"slices"
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
// it can have been due, and so reached all that was published by then: however often that
// was, and whatever way each copy took.
func (r *record) cancelledFor() (why []string) {
	for i := range r.changes {
		c := &r.changes[i]
		if c.outcome != Cancelled && c.outcome != Tombstoned || c.outcome == Tombstoned && r.mayHave(Reschedule, math.MaxInt64) {
			continue
		}
		for _, e := range r.received {
			if e.At > c.answered && r.begunBefore(c, e.At) && r.leastDue(e) > c.answered {
				why = append(why, fmt.Sprintf("%s by %s, and received by %s after that", c.outcome, c.who, e.Who))
			}
		}
	}
	return why
}

// begunBefore says whether each attempt to publish from which a delivery at the instant at
// can stem had begun before a change, by whatever clock; or had an answer, where nothing was
// known of the message.
func (r *record) begunBefore(c *change, at int64) bool {
	for _, a := range r.candidates(at) {
		begun := a.at
		if c.outcome == Tombstoned {
			begun = a.answered
		}
		if begun == 0 || begun+max(0, a.ahead) >= c.at {
			return false
		}
	}
	return true
}

// leastDue returns the first instant, in Unix microseconds, at which what was received can
// have been due, by what it carries or by all that was asked for. A further attempt to
// handle it follows from the first one, and carries when itself was due.
func (r *record) leastDue(e Event) int64 {
	if e.Due > 0 && e.Attempt == 0 {
		return 1000 * e.Due
	}
	return r.leastAsked(e.At, nil)
}

// leastAsked returns the first instant, in Unix microseconds, that anything but one change
// asked for that had begun by the instant at, and may have happened.
func (r *record) leastAsked(at int64, but *change) int64 {
	least := int64(math.MaxInt64)
	for _, a := range r.candidates(at) {
		least = min(least, a.notBefore)
	}
	for i := range r.changes {
		if c := &r.changes[i]; c != but && c.call == Reschedule && c.at <= at && !c.inVain() {
			if least = min(least, c.notBefore); c.due > 0 {
				least = min(least, 1000*c.due)
			}
		}
	}
	return least
}

// takenInWithin is how much earlier than it is parked a delay may begin to run.
const takenInWithin = 500 * time.Millisecond

// rescheduledFor objects to what is delivered at an old time of a message that was
// rescheduled before it can have been due, and so however often it had been published. While
// it waits, each repetition is that message. One that a bridge takes from the inbox
// afterwards is another one, and due so much later.
func (r *record) rescheduledFor() (why []string) {
	for i := range r.changes {
		c := &r.changes[i]
		if c.outcome != Rescheduled || r.sole() != nil || r.mayBeMoved(c) || r.leastAsked(c.answered, c) <= c.answered {
			continue
		}
		old := r.lastCopy(c)
		for _, e := range r.received {
			switch {
			case e.At <= c.answered || e.Attempt > 0 || e.Due == 0 || e.Due == c.due:
			case e.At < 1000*c.due:
				why = append(why, fmt.Sprintf("rescheduled by %s, and received by %s %v before the new time", c.who, e.Who, micros(1000*c.due-e.At)))
			case 1000*e.Due <= old:
				why = append(why, fmt.Sprintf("rescheduled by %s, and received by %s at an old time too", c.who, e.Who))
			}
		}
	}
	return why
}

// lastCopy returns the last due time, in Unix microseconds, that a copy of the message has
// which was parked before c for certain; 0 if attempts asked for an instant, and so all
// copies, whenever they were parked, are due at the same time.
func (r *record) lastCopy(c *change) int64 {
	attempts := r.candidates(math.MaxInt64)
	relative := slices.ContainsFunc(attempts, func(a attempt) bool { return a.notBefore != attempts[0].notBefore })
	if !relative {
		return 0
	}
	return c.at + attempts[0].notBefore - attempts[0].at - takenInWithin.Microseconds()
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
		// The next message with the ID may be cancelled once the first one has come.
		return len(candidates) > 1 && r.leastAsked(until, nil) <= held.answered
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
