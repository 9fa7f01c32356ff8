package history

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// lost objects to a message that never came, or came to nothing.
func (r *record) lost() (why []string) {
	switch {
	case r.mayBeCancelled():
	case r.published() && len(r.received) == 0:
		why = append(why, "published, never received")
		for _, l := range r.left {
			why = append(why, "lies in "+l.String())
		}
	case len(r.received) > 0 && len(r.effects) == 0 && len(r.rejected) == 0 && r.state.State == StatePending:
		why = append(why, "received, never an effect, and the order is still pending")
	}
	return append(why, r.lostRejected()...)
}

// early objects to each delivery before the instants that were asked for,
// promised, or written on the message.
func (r *record) early() (why []string) {
	for _, e := range r.received {
		object := func(bound int64, said string) {
			if e.At < bound {
				why = append(why, fmt.Sprintf("received by %s %v before %s", e.Who, micros(bound-e.At), said))
			}
		}
		object(1000*e.Due, "the due time that it carries")
		moved := r.earliest(e.At)
		if r.last() != nil {
			object(moved, "the due time that rescheduling returned")
			continue
		}
		notBefore, due := r.promised(e.At)
		object(min(notBefore, moved), "any attempt asked for")
		object(min(due, moved), "the due time that publish returned")
	}
	return append(why, r.retriedEarly()...)
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
	if r.last() != nil {
		return moved
	}
	notBefore, due := r.promised(at)
	return min(max(notBefore, due), moved)
}

// double objects to an order that was closed more than once.
func (r *record) double() (why []string) {
	if r.state.Closings > 1 {
		why = append(why, fmt.Sprintf("closed %d times by the store's log", r.state.Closings))
	}
	closed := 0
	for _, e := range r.effects {
		if e.Detail == EffectClosed {
			closed++
		}
	}
	if closed > 1 {
		why = append(why, fmt.Sprintf("%d effects closed it", closed))
	}
	return why
}

// wrong objects to whatever contradicts itself.
func (r *record) wrong() (why []string) {
	for _, rule := range []func() []string{r.wrongMessage, r.wrongState, r.wrongStock, r.wrongOrder, r.cancelledFor, r.rescheduledFor, r.wrongCancel, r.wrongChange, r.wrongAttempts} {
		why = append(why, rule()...)
	}
	return why
}

// wrongMessage objects to a message that nobody sent, or not like that.
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
		if l.quarantined() && !r.belongs(l) {
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
	case StatePending:
		if all != "" {
			why = append(why, "pending, but "+all)
		}
		if len(r.received) > 0 && r.acknowledged && !r.mayBeCancelled() {
			why = append(why, "pending, but its message was received and acknowledged")
		}
		return why
	case StatePaid:
		paid = append(paid, "the store says paid")
	case StateClosed:
		closed = append(closed, "the store says closed")
		if r.state.Closings == 0 {
			why = append(why, "closed, but not by the store's log")
		}
	default:
		if r.known {
			why = append(why, fmt.Sprintf("in a state that there is not: %q", r.state.State))
		} else if r.placed || all != "" {
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
		if text := fmt.Sprintf("%s's effect was %q", e.Who, e.Detail); e.Detail == EffectLeftAlone {
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

// wrongStock objects to stock that was given back for an order that is not closed.
func (r *record) wrongStock() (why []string) {
	if r.state.StockGiven > 0 && r.state.State != StateClosed {
		why = append(why, r.state.State+", but its stock was given back")
	}
	return why
}

// wrongOrder objects to effects without a cause before them. Calls and deliveries
// are written before they can have an effect, whoever is killed later.
func (r *record) wrongOrder() (why []string) {
	for _, e := range r.effects {
		if !r.receivedBy(e.At) {
			why = append(why, e.Who+"'s effect came before its message was received")
		}
		if e.Detail == EffectLeftAlone && (r.firstPay == 0 || r.firstPay > e.At) {
			why = append(why, e.Who+" found it paid before anybody tried to pay")
		}
	}
	for _, e := range r.payRefused {
		if !r.receivedBy(e.At) {
			why = append(why, "a payment was refused before its message was received")
		}
	}
	if len(r.received) == 0 && (r.state.State == StateClosed || r.state.Closings > 0) {
		why = append(why, "closed, though its message was never received")
	}
	if r.state.State == StatePaid && r.firstPay == 0 {
		why = append(why, "paid, though nobody tried to pay")
	}
	return why
}

func (l Left) quarantined() bool { return strings.Contains(l.Where, "quarantine") }

// String says where l lies, and why.
func (l Left) String() string {
	if l.Reason == "" {
		return l.Where
	}
	return l.Where + " (" + l.Reason + ")"
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
