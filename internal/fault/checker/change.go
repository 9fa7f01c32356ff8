package checker

import (
	"math"
	"slices"

	"github.com/delaybridge/delaybridge/internal/fault/history"
)

// change is one call of cancel or reschedule and what came of it.
type change struct {
	who       string
	call      history.Kind // Cancel or Reschedule
	at        int64        // Unix microseconds
	answered  int64        // Unix microseconds; 0 if it was not
	outcome   history.Kind // empty while there is no answer
	notBefore int64        // Unix microseconds; of a call of reschedule
	due       int64        // Unix milliseconds; 0 if the answer says nothing
	since     int64        // Unix milliseconds; 0 if the answer says nothing
	lost      bool         // Redis may have lost it, some time after it was made
}

// answerChange gives the last call of the same process its outcome. A call that
// stays without one may have happened, at any time since.
func (r *record) answerChange(call history.Kind, e history.Event) {
	for i := len(r.changes) - 1; i >= 0; i-- {
		if c := &r.changes[i]; c.who == e.Who && c.call == call && c.outcome == "" {
			c.outcome, c.answered, c.due, c.since = e.Kind, e.At, e.Due, e.Since
			return
		}
	}
	// An answer without a call restricts nothing but itself.
	r.changes = append(r.changes, change{who: e.Who, call: call, at: e.At, answered: e.At, outcome: e.Kind, notBefore: 1000 * e.Due, due: e.Due, since: e.Since})
}

// inVain says whether it is certain that the change has changed nothing.
func (c *change) inVain() bool {
	switch c.outcome {
	case history.CancelLate, history.CancelRefused, history.RescheduleLate, history.RescheduleCancelled, history.RescheduleRefused:
		return true
	default:
		return false
	}
}

// late says whether the answer was that the message had been delivered.
func (c *change) late() bool {
	return c.outcome == history.CancelLate || c.outcome == history.RescheduleLate
}

// mayHave says whether a call of this kind, made by the instant at, may have changed
// something.
func (r *record) mayHave(call history.Kind, at int64) bool {
	for i := range r.changes {
		if c := &r.changes[i]; c.call == call && c.at <= at && !c.inVain() {
			return true
		}
	}
	return false
}

// mayBeCancelled says whether the message may rightly never come: an answer says so, or there
// was none and what is left in Redis does not deny it, as far as Redis has lost nothing.
func (r *record) mayBeCancelled() bool {
	for i := range r.changes {
		switch c := &r.changes[i]; {
		case c.outcome == history.Cancelled || c.outcome == history.Tombstoned || c.outcome == history.RescheduleCancelled,
			c.call == history.Cancel && !c.inVain() && (r.tombstone || c.lost):
			return true
		}
	}
	return false
}

// sole returns the one attempt from which all deliveries stem, if there is no other
// that may have happened. With more there may be several messages of one ID, and what
// is changed is one of them.
func (r *record) sole() *attempt {
	var found *attempt
	for i := range r.attempts {
		if a := &r.attempts[i]; r.mayHaveHappened(a) {
			if found != nil {
				return nil
			}
			found = a
		}
	}
	return found
}

// several says whether there may have been more than one message of the ID by an instant:
// another order's, or a copy. A bridge that has not heard whether Redis has taken a message
// out of the inbox parks it again, or, where it is overdue by then, has it delivered without a due time; if
// the first one was due by then, its ID was free.
func (r *record) several(at int64) bool {
	return r.shared || r.inbox && slices.ContainsFunc(r.received, func(e history.Event) bool {
		return e.Attempt == 0 && (e.Due > 0 && 1000*e.Due <= at || e.Due == 0 && e.At <= at)
	})
}

// holds says whether the answer to c leaves no other way than that the order's
// message was changed.
func (r *record) holds(c *change) bool {
	a := r.sole()
	if a == nil || r.several(c.answered) {
		return false
	}
	switch c.outcome {
	case history.Cancelled, history.Rescheduled:
		return a.at <= c.answered // it was known, and there is no other
	case history.Tombstoned, history.Noted:
		// Nothing was known of it. What is dated after a change counts as another
		// message with the same ID, so none may have been asked for before.
		return a.answered > 0 && a.answered+max(0, a.ahead) < r.changes[0].at
	default:
		return false
	}
}

// last returns the last reschedule that holds, or nil: of the times asked for before
// none counts any more, unless it is unknown whether and when it was asked for.
func (r *record) last() *change {
	if r.unasked > 0 { // what the broker has comes at its old time
		return nil
	}
	for i := len(r.changes) - 1; i >= 0; i-- {
		if c := &r.changes[i]; c.call == history.Reschedule && r.holds(c) {
			return c
		}
	}
	return nil
}

// earliest returns the first instant, in Unix microseconds, that any reschedule
// begun by the instant at may have made the message's due time.
func (r *record) earliest(at int64) int64 {
	least, last := int64(math.MaxInt64), r.last()
	for i := range r.changes {
		c := &r.changes[i]
		switch {
		case c == last:
			least = min(least, 1000*c.due) // also for what came before the call, which it denies
		case c.call != history.Reschedule || c.at > at || c.inVain():
		case c.outcome == "":
			least = min(least, c.notBefore)
		case last == nil || c.at > last.at:
			least = min(least, 1000*c.due)
		}
	}
	return least
}
