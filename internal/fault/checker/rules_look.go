package checker

import (
	"fmt"
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/internal/fault/history"
)

// look is one call to look the message up, and what was seen.
type look struct {
	who      string
	at       int64 // Unix microseconds
	answered int64 // Unix microseconds; 0 if it was not
	found    string
	due      int64 // Unix milliseconds; 0 if the answer says nothing
	listed   bool  // it was a list of all
}

// mustBeListed is how much later than a list a message is due that must be on it. One that is
// due sooner may be with a bridge, or in a lane.
const mustBeListed = 10 * time.Second

// list takes up a call to list what waits, or what was seen of each order then.
func (r *run) list(e *history.Event) {
	if e.Kind == history.List {
		r.lists[e.Who] = e.At
		return
	}
	for _, o := range r.sequence {
		seen := look{who: e.Who, at: r.lists[e.Who], answered: e.At, found: history.GotNothing, listed: true}
		due, there := e.Orders[history.OrderOf(o.id)]
		if there {
			seen.found, seen.due = history.GotWaiting, due
		}
		waits := func(a attempt) bool { return 1000*a.due > e.At+mustBeListed.Microseconds() }
		if there || slices.ContainsFunc(o.attempts, waits) {
			o.looks = append(o.looks, seen)
		}
	}
}

// answerLook gives the last call of the same process its answer.
func (r *record) answerLook(e history.Event) {
	for i := len(r.looks) - 1; i >= 0; i-- {
		if l := &r.looks[i]; l.who == e.Who && l.answered == 0 {
			l.answered, l.found, l.due = e.At, e.Detail, e.Due
			return
		}
	}
}

// lookedUp says whether anybody has seen what became of the message, and of no other one.
func (r *record) lookedUp() bool {
	return !r.shared && slices.ContainsFunc(r.looks, func(l look) bool { return l.answered > 0 })
}

// wronglySeen objects to what was seen of a message and cannot have been so.
func (r *record) wronglySeen() (why []string) {
	if r.shared {
		return nil
	}
	for i := range r.looks {
		l := &r.looks[i]
		object := func(text string) {
			how := "looked up"
			if l.listed {
				how = "listed"
			}
			why = append(why, fmt.Sprintf("%s by %s as %q, %s", how, l.who, l.found, text))
		}
		switch {
		case l.answered == 0:
		case l.listed && l.found == history.GotNothing && (r.mayHave(history.Cancel, l.answered) || r.mayHave(history.Reschedule, l.answered)):
		case l.found == history.GotNothing && r.parkedFor(l):
			object("though it had been parked, and was not due")
		case l.found == history.GotNothing && r.cancelledBefore(l):
			object("though it had been cancelled")
		case l.found == history.GotCancelled && !r.mayHave(history.Cancel, l.answered):
			object("though nobody had cancelled it")
		case l.found == history.GotDelivered && r.neverCame():
			object("and never received")
		case l.found == history.GotDelivered && l.answered < r.bound(l.answered):
			object(fmt.Sprintf("%v before it could be", micros(r.bound(l.answered)-l.answered)))
		case l.found == history.GotWaiting && r.cancelledBefore(l):
			object("though it had been cancelled")
		case l.found == history.GotWaiting && r.promisedAnother(l):
			object("for another due time than publish returned")
		}
	}
	return why
}

// parkedFor says whether Redis must have had the message at the look: it was parked
// before, and it could not be due yet.
func (r *record) parkedFor(l *look) bool {
	soonest := r.earliest(l.answered)
	for i := range r.changes { // what a later reschedule denies held until then
		if c := &r.changes[i]; c.call == history.Reschedule && c.at <= l.answered && c.due > 0 {
			soonest = min(soonest, 1000*c.due)
		}
	}
	return slices.ContainsFunc(r.attempts, func(a attempt) bool {
		return a.outcome == history.Published && a.answered < l.at && l.answered < min(1000*a.due, soonest)-r.wrongClock()
	})
}

// cancelledBefore says whether the message had been cancelled at the look, and cannot
// have been published anew.
func (r *record) cancelledBefore(l *look) bool {
	return slices.ContainsFunc(r.changes, func(c change) bool {
		return c.outcome == history.Cancelled && c.answered < l.at && r.begunBefore(&c, l.answered)
	})
}

// promisedAnother says whether publish had returned another due time than that which was seen,
// and nothing can have changed it.
func (r *record) promisedAnother(l *look) bool {
	a := r.sole()
	return a != nil && a.outcome == history.Published && a.due > 0 && a.answered < l.at && l.due > 0 && l.due != a.due && !r.mayHave(history.Reschedule, l.answered)
}
