package checker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/internal/fault/history"
)

// Names of the rules that do not judge orders.
const (
	RuleStock      = "the stock adds up"
	RuleKeys       = "keys in Redis agree"
	RuleGoroutines = "goroutines do not pile up"
)

// Rules names all rules, in the order of reports.
func Rules() []string {
	var names []string
	for _, r := range rules() {
		names = append(names, r.name)
	}
	return append(names, RuleStock, RuleKeys, RuleGoroutines)
}

// rule judges the orders of a run, one by one.
type rule struct {
	name string // as reports give it
	kind ViolationKind
	// judges says whether there is anything to decide over an order.
	judges func(*record, *run) bool
	// objects returns why an order breaks the rule.
	objects func(*record, *run) []string
}

// rules returns all that judge orders.
func rules() []rule {
	plain := func(objects func(*record) []string) func(*record, *run) []string {
		return func(r *record, _ *run) []string { return objects(r) }
	}
	when := func(judges func(*record) bool) func(*record, *run) bool {
		return func(r *record, _ *run) bool { return judges(r) }
	}
	each := when(func(r *record) bool { return r.placed })
	came := when(func(r *record) bool { return len(r.received) > 0 })
	failed := when(func(r *record) bool { return len(r.failed) > 0 })
	changed := func(outcomes ...history.Kind) func(*record, *run) bool {
		return when(func(r *record) bool {
			return slices.ContainsFunc(r.changes, func(c change) bool { return slices.Contains(outcomes, c.outcome) })
		})
	}
	return []rule{
		{"published, and comes", KindLost, when((*record).mustCome), plain((*record).missing)},
		{"comes, and has its effect", KindLost, came, plain((*record).withoutEffect)},
		{"rejected, and in quarantine", KindLost, when(func(r *record) bool { return len(r.rejected) > 0 }), plain((*record).lostRejected)},
		{"not early", KindEarly, came, (*record).early},
		{"not tried again early", KindEarly, failed, plain((*record).retriedEarly)},
		{"closed once", KindDouble, each, plain((*record).double)},
		{"as it was sent", KindWrong, came, plain((*record).wrongMessage)},
		{"either paid or closed", KindWrong, each, plain((*record).wrongState)},
		{"cause before effect", KindWrong, came, plain((*record).wrongOrder)},
		{"cancelled, and does not come", KindWrong, changed(history.Cancelled, history.Tombstoned), plain((*record).cameAnyway)},
		{"rescheduled, and comes at the new time alone", KindWrong, changed(history.Rescheduled, history.Noted), (*record).cameAtOldTime},
		{"delivered, as was answered", KindWrong, changed(history.CancelLate, history.RescheduleLate, history.RescheduleCancelled), plain((*record).untrue)},
		{"looked up, as it was", KindWrong, when((*record).lookedUp), plain((*record).wronglySeen)},
		{"dropped for a reason", KindWrong, when(func(r *record) bool { return len(r.dropped) > 0 }), plain((*record).wrongDrop)},
		{"attempts follow each other", KindWrong, failed, plain((*record).wrongAttempts)},
		{"without an ID, under one ID", KindWrong, when(func(r *record) bool { return r.noID && len(r.received) > 0 }), (*record).copies},
		{"waits for no other queue", KindWrong, (*record).besideSilence, (*record).heldUp},
		{"on time", KindLate, (*record).dueInCalm, (*record).late},
	}
}

// mustCome says whether the message was published, and not cancelled.
func (r *record) mustCome() bool { return r.published() && !r.mayBeCancelled() }

// missing objects to a message that was published and has not come since. While the one
// before waits, a repetition is that message, and comes with it.
func (r *record) missing() (why []string) {
	if r.mayBeCancelled() || r.elsewhere {
		return nil
	}
	for _, a := range r.attempts {
		if a.outcome != history.Published || r.comesAfter(a.at) {
			continue
		}
		said := "published, never received"
		if len(r.received) > 0 {
			said = fmt.Sprintf("published by %s, and not received after that", a.who)
		}
		why = append(why, said)
		for _, l := range r.left {
			why = append(why, "lies in "+l.String())
		}
		break
	}
	return why
}

// comesAfter says whether a message has come since an instant, for its first attempt.
func (r *record) comesAfter(at int64) bool {
	return slices.ContainsFunc(r.received, func(e history.Event) bool { return e.At >= at && e.Attempt == 0 })
}

// neverCame says whether the message has come to none of its queues. An answer that it was
// delivered is about the first to which it came.
func (r *record) neverCame() bool {
	return len(r.received) == 0 && (r.twin == nil || len(r.twin.received) == 0)
}

// cameSplit says whether the message came while one for two queues may have come to one of
// them alone.
func (r *record) cameSplit(outages []outage) bool {
	return slices.ContainsFunc(outages, func(o outage) bool {
		return o.fault.Splits && slices.ContainsFunc(r.received, func(e history.Event) bool {
			return e.At >= o.fault.At && e.At <= o.mended+usualAftermath.Microseconds()
		})
	})
}

// withoutEffect objects to a message that came to nothing.
func (r *record) withoutEffect() []string {
	if !r.mayBeCancelled() && !r.mayHaveLost && len(r.received) > 0 && len(r.effects) == 0 && len(r.rejected) == 0 && r.state.State == history.StatePending {
		return []string{"received, never an effect, and the order is still pending"}
	}
	return nil
}

// early objects to each delivery before the instants that were asked for,
// promised, or written on the message.
func (r *record) early(past *run) (why []string) {
	for _, e := range r.received {
		object := func(bound int64, said string) {
			if early := bound - e.At; early > r.wrongClock() {
				why = append(why, fmt.Sprintf("received by %s %v before %s", e.Who, micros(early), said))
			}
		}
		object(1000*e.Due, "the due time that it carries")
		moved := r.earliest(e.At)
		if r.last() != nil && !r.overdueCopy(e, past.outages) {
			object(moved, "the due time that rescheduling returned")
			continue
		}
		notBefore, due := r.promised(e.At)
		object(min(notBefore, moved), "any attempt asked for")
		object(min(due, moved), "the due time that publish returned")
	}
	return why
}

// overdueCopy says whether e may be a second copy from the inbox that was overdue when it was taken in, and so was
// not parked: a bridge was cut short between parking and acknowledging. No bridge can tell such a copy from a
// new message.
func (r *record) overdueCopy(e history.Event, outages []outage) bool {
	return r.inbox && e.Attempt == 0 && e.Due == 0 && cutShort(outages, r.events[0].At-handsOver.Microseconds(), e.At)
}

// promised returns the first instants, in Unix microseconds, that the attempts from
// which a delivery at the instant at can stem have asked for, and that publish has
// returned; 0 if there is none.
func (r *record) promised(at int64) (notBefore, due int64) {
	attempts := r.candidates(at)
	if len(attempts) == 0 {
		return 0, 0
	}
	notBefore, due = attempts[0].notBefore, 1000*attempts[0].due
	for _, a := range attempts {
		notBefore, due = min(notBefore, a.notBefore), min(due, 1000*a.due) // 0 if one returned none
	}
	return notBefore, due
}

// bound returns the first instant, in Unix microseconds, at which the message may be
// delivered, for all that was asked for by the instant at.
func (r *record) bound(at int64) int64 {
	moved := r.earliest(at)
	if r.last() == nil {
		notBefore, due := r.promised(at)
		moved = min(max(notBefore, due), moved)
	}
	return moved - r.wrongClock()
}

// double objects to an order that was closed more than once.
func (r *record) double() (why []string) {
	if r.state.Closings > 1 {
		why = append(why, fmt.Sprintf("closed %d times by the store's log", r.state.Closings))
	}
	closed := 0
	for _, e := range r.effects {
		if e.Detail == history.EffectClosed {
			closed++
		}
	}
	if closed > 1 {
		why = append(why, fmt.Sprintf("%d effects closed it", closed))
	}
	return why
}

// wrongMessage objects to a message that was not sent, or not like that.
func (r *record) wrongMessage() (why []string) {
	for _, e := range r.received {
		if len(r.candidates(e.At)) == 0 {
			text := "that nobody had published"
			if len(r.attempts) > 0 && r.attempts[0].at <= e.At {
				text = "though publish had said no"
			}
			why = append(why, fmt.Sprintf("%s received a message %s", e.Who, text))
		}
		if !e.Intact {
			why = append(why, e.Who+" received something else than what was published")
		}
	}
	for _, l := range r.left {
		if l.Quarantined() && !r.belongs(l) {
			why = append(why, "lies in "+l.String())
		}
	}
	return why
}

// wrongState compares all that bears witness to how the order ended. A process
// that was killed bears none, so what is missing proves nothing; what was said
// stays true, since an order that is paid or closed remains so.
func (r *record) wrongState() (why []string) {
	paid, closed := r.witnesses()
	all := strings.Join(slices.Concat(paid, closed), ", ")
	switch r.state.State {
	case history.StatePending:
		if all != "" {
			why = append(why, "pending, but "+all)
		}
		if len(r.received) > 0 && r.acknowledged && !r.mayBeCancelled() {
			why = append(why, "pending, but its message was received and acknowledged")
		}
		return why
	case history.StatePaid:
		paid = append(paid, "the store says paid")
	case history.StateClosed:
		closed = append(closed, "the store says closed")
		if r.state.Closings == 0 {
			why = append(why, "closed, but not by the store's log")
		}
	default:
		if r.known {
			why = append(why, fmt.Sprintf("in a state that there is not: %q", r.state.State))
		} else if all != "" || r.placed && (!r.outbox || r.published()) {
			why = append(why, "not in the order store")
		}
	}
	if len(paid) > 0 && len(closed) > 0 {
		why = append(why, strings.Join(paid, ", ")+"; but "+strings.Join(closed, ", "))
	}
	return why
}

// witnesses returns what says that the order was paid or closed, except its state.
func (r *record) witnesses() (paid, closed []string) {
	if r.accepted {
		paid = append(paid, "a payment was accepted")
	}
	if len(r.payRefused) > 0 {
		closed = append(closed, "a payment was refused")
	}
	for _, e := range r.effects {
		if text := fmt.Sprintf("%s's effect was %q", e.Who, e.Detail); e.Detail == history.EffectLeftAlone {
			paid = append(paid, text)
		} else {
			closed = append(closed, text)
		}
	}
	if r.state.Closings > 0 {
		closed = append(closed, "the store's log says that it was closed")
	}
	return paid, closed
}

// wrongOrder objects to effects without a cause before them. Calls and deliveries
// are written before they can have an effect, whatever is killed later.
func (r *record) wrongOrder() (why []string) {
	for _, e := range r.effects {
		if !r.receivedBy(e.At) {
			why = append(why, e.Who+"'s effect came before its message was received")
		}
		if e.Detail == history.EffectLeftAlone && (r.firstPay == 0 || r.firstPay > e.At) {
			why = append(why, e.Who+" found it paid before anybody tried to pay")
		}
	}
	for _, e := range r.payRefused {
		if !r.receivedBy(e.At) {
			why = append(why, "a payment was refused before its message was received")
		}
	}
	if len(r.received) == 0 && (r.state.State == history.StateClosed || r.state.Closings > 0) {
		why = append(why, "closed, though its message was never received")
	}
	if r.state.State == history.StatePaid && r.firstPay == 0 {
		why = append(why, "paid, though nobody tried to pay")
	}
	return why
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
