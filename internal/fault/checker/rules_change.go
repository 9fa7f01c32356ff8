package checker

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/internal/fault/history"
)

// untrue objects to what was answered to a change, by what came.
func (r *record) untrue() (why []string) {
	for i := range r.changes {
		c := &r.changes[i]
		switch {
		case c.late():
			why = append(why, r.untrulyLate(c)...)
		case c.outcome == history.RescheduleCancelled && !r.mayHave(history.Cancel, c.answered):
			why = append(why, "said to be cancelled, though nobody had cancelled it")
		}
	}
	return why
}

// wrongDrop objects to a message that a consumer dropped for what had not happened.
func (r *record) wrongDrop() (why []string) {
	for _, e := range r.dropped {
		call := history.Cancel
		if e.Detail == history.DroppedRescheduled {
			call = history.Reschedule
		}
		if !r.mayHave(call, e.At) {
			why = append(why, fmt.Sprintf("%s dropped it as %s, which it was not", e.Who, e.Detail))
		}
	}
	return why
}

// cameAnyway objects to what is delivered although it was cancelled: by a consumer that asked
// after the answer, however often it had been published by then and whatever way each copy
// took. Where there is but one message, it must not have come before either.
func (r *record) cameAnyway() (why []string) {
	for i := range r.changes {
		c := &r.changes[i]
		if c.outcome != history.Cancelled && (c.outcome != history.Tombstoned || r.unasked > 0) {
			continue
		}
		holds := r.holds(c)
		for _, e := range r.received {
			wrong := holds || asked(&e) > c.answered && r.begunBefore(c, e.At) && !r.redelivered(e, c)
			if r.unasked > 0 {
				wrong = r.wasInRedis(e, c) && r.begunBefore(c, e.At)
			}
			if wrong {
				why = append(why, fmt.Sprintf("%s by %s, and received by %s", c.outcome, c.who, e.Who))
			}
		}
	}
	return why
}

// wasInRedis says whether Redis alone can have had the message e when c was answered.
func (r *record) wasInRedis(e history.Event, c *change) bool {
	return e.Due > 0 && e.Attempt == 0 && c.answered < 1000*e.Due-r.unasked-r.wrongClock()
}

// redelivered says whether e may be a message that had come before c was answered, once more,
// for another attempt, or to the other one of two queues. Of that one it was true that it could
// not be cancelled.
func (r *record) redelivered(e history.Event, c *change) bool {
	may := func(before history.Event) bool {
		return asked(&before) <= c.answered && (e.Attempt > 0 || e.Due == 0 || before.Due == 0 || before.Due == e.Due)
	}
	return slices.ContainsFunc(r.received, may) || r.twin != nil && slices.ContainsFunc(r.twin.received, may)
}

// asked returns when a consumer that received a message could last be told to drop it.
func asked(e *history.Event) int64 {
	if e.Asked > 0 {
		return e.Asked
	}
	return e.At
}

// begunBefore says whether each attempt to publish from which a delivery at the instant at
// can stem had begun before a change, by whatever clock; or had an answer, where nothing was
// known of the message.
func (r *record) begunBefore(c *change, at int64) bool {
	for _, a := range r.candidates(at) {
		begun := a.at
		if c.outcome == history.Tombstoned {
			begun = a.answered
		}
		if begun == 0 || begun+max(0, a.ahead) >= c.at {
			return false
		}
	}
	return true
}

// leastAsked returns the first instant, in Unix microseconds, that anything but one change
// asked for that had begun by the instant at, and may have happened.
func (r *record) leastAsked(at int64, but *change) int64 {
	least := int64(math.MaxInt64)
	for _, a := range r.candidates(at) {
		least = min(least, a.notBefore)
	}
	for i := range r.changes {
		if c := &r.changes[i]; c != but && c.call == history.Reschedule && c.at <= at && !c.inVain() {
			if least = min(least, c.notBefore); c.due > 0 {
				least = min(least, 1000*c.due)
			}
		}
	}
	return least - r.wrongClock()
}

// takenInWithin is how much earlier than it is parked a delay may begin to run.
const takenInWithin = 500 * time.Millisecond

// cameAtOldTime objects to deliveries in spite of a new due time.
func (r *record) cameAtOldTime(past *run) (why []string) {
	for i := range r.changes {
		if c := &r.changes[i]; c.outcome == history.Rescheduled || c.outcome == history.Noted {
			if r.holds(c) {
				why = append(why, r.defied(c, past.outages)...)
			}
		}
	}
	if r.unasked > 0 {
		return why
	}
	return append(why, r.repeatedOld()...)
}

// repeatedOld objects to what is delivered at an old time of a message that was
// rescheduled before it can have been due, and so however often it had been published. While
// it waits, each repetition is that message. One that a bridge takes from the inbox
// afterwards is another one, and due so much later.
func (r *record) repeatedOld() (why []string) {
	for i := range r.changes {
		c := &r.changes[i]
		if c.outcome != history.Rescheduled || r.shared || r.sole() != nil || r.mayBeMoved(c) || r.leastAsked(c.answered, c) <= c.answered {
			continue
		}
		old := r.lastCopy(c)
		for _, e := range r.received {
			switch {
			case e.At <= c.answered || e.Attempt > 0 || e.Due == 0 || e.Due == c.due:
			case e.At < 1000*c.due-r.wrongClock():
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
	return c.at + attempts[0].notBefore - attempts[0].at - takenInWithin.Microseconds() - r.wrongClock()
}

// untrulyLate objects to an answer that the message was delivered.
func (r *record) untrulyLate(c *change) (why []string) {
	if r.shared {
		return nil // it may have been the other message
	}
	if r.neverCame() {
		return []string{"said to be delivered, and never received"}
	}
	if early := r.bound(c.answered) - c.answered; early > 0 {
		why = append(why, fmt.Sprintf("said to be delivered %v before it could be", micros(early)))
	}
	if a := r.sole(); a != nil && !r.several(c.answered) && c.since > 0 && len(r.received) > 0 && 1000*c.since > r.received[0].At+r.wrongClock() {
		why = append(why, "received before it was delivered, as was said")
	}
	return why
}

// defied objects to deliveries in spite of a reschedule that holds.
func (r *record) defied(c *change, outages []outage) (why []string) {
	last := r.last()
	for _, e := range r.received {
		switch {
		case r.unasked > 0 && !r.wasInRedis(e, c):
		case e.At < c.at:
			why = append(why, fmt.Sprintf("%s, though %s had received it", c.outcome, e.Who))
		case (c == last || r.unasked > 0) && c.outcome == history.Rescheduled && e.Attempt == 0 && e.Due > 0 && e.Due != c.due && !r.mayBeMoved(c) && !r.takenInAfter(e, c, outages):
			why = append(why, fmt.Sprintf("received by %s with another due time than the new one", e.Who))
		}
	}
	return why
}

// takenInAfter says whether e is a second copy from the inbox, parked after the message had
// left at its new time: a bridge was cut short between parking and acknowledging. No bridge can
// tell such a copy from a new message. Messages with an absolute due time are not excused.
func (r *record) takenInAfter(e history.Event, c *change, outages []outage) bool {
	a := r.sole()
	if !r.inbox || a == nil {
		return false
	}
	taken := 1000*e.Due - (a.notBefore - a.at) + r.wrongClock()
	return taken+takenInWithin.Microseconds() >= 1000*c.due && cutShort(outages, a.at-handsOver.Microseconds(), taken)
}

// mayBeMoved says whether another reschedule than c may have the last word.
func (r *record) mayBeMoved(c *change) bool {
	for i := range r.changes {
		if o := &r.changes[i]; o.call == history.Reschedule && !o.inVain() && (o.at > c.at || o.outcome == "") {
			return true
		}
	}
	return false
}
