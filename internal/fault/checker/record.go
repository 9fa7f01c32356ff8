package checker

import (
	"math"
	"strings"

	"github.com/delaybridge/delaybridge/internal/fault/history"
)

// record is all that is known of one order.
type record struct {
	id     string
	act    string
	placed bool
	inbox  bool   // published to the inbox
	noID   bool   // without an ID
	outbox bool   // its message is in the transaction that placed it
	queue  string // to which the message goes
	// unasked is for how long before it is due the message may be where no change reaches
	// it, since its consumer does not ask, in microseconds; 0 where it asks.
	unasked int64
	events  []history.Event // in the order of time

	attempts     []attempt
	received     []history.Event
	effects      []history.Event
	acknowledged bool
	firstPay     int64 // call, Unix microseconds; 0 if no payment was tried
	accepted     bool  // a payment
	payRefused   []history.Event
	changes      []change
	looks        []look
	dropped      []history.Event
	failed       []history.Event
	rejected     []history.Event

	// shared says that another order's message has the same ID.
	shared   bool
	sharesID string // the other order, if that was first to have it
	// elsewhere says that the message may have come to its other queue alone, while somebody had
	// deleted what leads to both.
	elsewhere bool
	// mayHaveLost says that Redis may have lost what a consumer told it.
	mayHaveLost bool
	// clockAhead and clockBehind are by how many microseconds the clock of Redis was wrong at
	// most while the order was under way.
	clockAhead, clockBehind int64
	// twin is what is known of the order in the other one of two queues; nil if there is none.
	twin *record
	// tombstone says whether Redis holds it as cancelled in the end, or it was not looked at.
	tombstone bool

	known bool // to the order store
	state history.OrderState
	left  []history.Left
}

// attempt is one call of publish and what came of it.
type attempt struct {
	who       string
	at        int64        // Unix microseconds
	answered  int64        // Unix microseconds; 0 if it was not
	ahead     int64        // microseconds
	notBefore int64        // Unix microseconds
	outcome   history.Kind // Unknown while there is no answer, or where what it says may have been lost since
	confirmed bool         // the answer was Published
	due       int64        // Unix milliseconds, 0 if unknown
}

// add takes up the next event.
func (r *record) add(e history.Event) {
	r.events = append(r.events, e)
	switch e.Kind {
	case history.Placed:
		if !r.placed {
			r.placed, r.act, r.queue, r.unasked, r.sharesID = true, e.Act, e.Queue, e.Unasked, e.ID
			r.inbox, r.noID = strings.HasPrefix(e.Detail, history.ThroughInbox), strings.HasPrefix(e.Detail, history.WithoutID)
			r.outbox = strings.HasPrefix(e.Detail, history.ThroughOutbox)
		}
	case history.Publish:
		r.attempts = append(r.attempts, attempt{who: e.Who, at: e.At, notBefore: e.NotBefore, ahead: e.Ahead, outcome: history.Unknown})
	case history.Published, history.Unknown, history.Refused:
		r.answer(e)
	case history.Received:
		r.received = append(r.received, e)
	case history.Effect:
		r.effects = append(r.effects, e)
	case history.Acknowledged:
		r.acknowledged = true
	case history.Pay:
		if r.firstPay == 0 {
			r.firstPay = e.At
		}
	case history.Paid:
		r.accepted = true
	case history.PayRefused:
		r.payRefused = append(r.payRefused, e)
	case history.Cancel, history.Reschedule:
		r.changes = append(r.changes, change{who: e.Who, call: e.Kind, at: e.At, notBefore: e.NotBefore})
	case history.Cancelled, history.Tombstoned, history.CancelLate, history.CancelRefused:
		r.answerChange(history.Cancel, e)
	case history.Rescheduled, history.Noted, history.RescheduleLate, history.RescheduleCancelled, history.RescheduleRefused:
		r.answerChange(history.Reschedule, e)
	case history.Get:
		r.looks = append(r.looks, look{who: e.Who, at: e.At})
	case history.Got:
		r.answerLook(e)
	case history.Dropped:
		r.dropped = append(r.dropped, e)
	case history.Failed:
		r.failed = append(r.failed, e)
	case history.Rejected:
		r.rejected = append(r.rejected, e)
	case history.PayUnknown, history.CancelUnknown, history.RescheduleUnknown, history.List, history.Listed, history.Fault, history.Mended:
	}
}

// answer gives the last call of the same process its outcome. A call that stays
// without one has an unknown outcome: its process was killed.
func (r *record) answer(e history.Event) {
	for i := len(r.attempts) - 1; i >= 0; i-- {
		if a := &r.attempts[i]; a.who == e.Who {
			a.outcome, a.due, a.answered, a.confirmed = e.Kind, e.Due, e.At, e.Kind == history.Published
			return
		}
	}
	// An answer without a call restricts nothing.
	r.attempts = append(r.attempts, attempt{who: e.Who, at: e.At, answered: e.At, outcome: e.Kind, due: e.Due})
}

// candidates returns the attempts that a delivery at the instant at can stem
// from: all begun by then that may have happened.
func (r *record) candidates(at int64) []attempt {
	var found []attempt
	for i := range r.attempts {
		if a := &r.attempts[i]; a.at <= at && r.mayHaveHappened(a) {
			found = append(found, *a)
		}
	}
	return found
}

// mayHaveHappened excludes attempts of which publish said definitely no. RabbitMQ refuses a
// message as soon as one of its queues does, so what was due by then may be in the other one.
func (r *record) mayHaveHappened(a *attempt) bool {
	return a.outcome != history.Refused || r.twin != nil && a.notBefore <= a.answered
}

// published says whether publish has returned success.
func (r *record) published() bool {
	for _, a := range r.attempts {
		if a.outcome == history.Published {
			return true
		}
	}
	return false
}

// receivedBy says whether the order's message had been received by the instant at.
func (r *record) receivedBy(at int64) bool {
	return len(r.received) > 0 && r.received[0].At <= at
}

// duplicates counts the deliveries beyond the first one of each attempt.
func (r *record) duplicates() int {
	attempts := map[int]bool{}
	for _, e := range r.received {
		attempts[e.Attempt] = true
	}
	return len(r.received) - len(attempts)
}

// lateness returns by how many microseconds the first delivery came after due.
func (r *record) lateness() (late int64, ok bool) {
	if len(r.received) == 0 {
		return 0, false
	}
	first := r.received[0]
	switch last := r.last(); {
	case last != nil && last.outcome == history.Rescheduled && !r.mayBeMoved(last):
		return first.At - 1000*last.due, true
	case r.mayHave(history.Reschedule, math.MaxInt64):
		return 0, false // it need not come before its old time, or that is unknown
	}
	var receipt, notBefore int64
	for _, a := range r.candidates(first.At) {
		if a.due > 0 && (receipt == 0 || a.due < receipt) {
			receipt = a.due
		}
		if notBefore == 0 || a.notBefore < notBefore {
			notBefore = a.notBefore
		}
	}
	switch {
	case receipt > 0:
		return first.At - 1000*receipt, true
	case first.Due > 0:
		return first.At - 1000*first.Due, true
	case notBefore > 0:
		return first.At - notBefore, true
	}
	return 0, false
}
