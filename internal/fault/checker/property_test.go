package checker_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/delaybridge/delaybridge/internal/fault/history"
)

// damage breaks one promise for the order id, and returns its kind; "" if there is
// nothing in this order that could be broken this way.
type damage func(s *simulation, id string) string

func TestEachDamageIsFoundAndNothingElse(t *testing.T) {
	t.Parallel()
	for name, inflict := range map[string]damage{
		"lose the message": lose, "deliver early": deliverEarly,
		"close twice, by the log": closeTwice, "close twice, by an effect": closeAgain,
		"pay over a close": payOver, "close over a payment": closeOver,
		"refuse a payment": refusePayment, "forget the order": forgetOrder, "reopen it": reopen,
		"change the message": changeMessage, "deliver what was refused": deliverRefused,
		"cancel without avail": cancelInVain, "quarantine it": quarantine,
		"deliver what was cancelled": deliverCancelled, "deliver before the new time": deliverMoved, "deliver for another time": deliverOld,
		"say that it was delivered": sayDelivered, "drop it": dropIt,
		"leave an attempt out": skipAttempt, "try again too soon": retryEarly,
		"lose what was rejected": loseRejected, "quarantine it for another reason": otherReason,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inflicted := 0
			for round := 0; round == 0 || inflicted == 0 && round < 20; round++ { // some orders are rare
				rapid.Check(t, func(rt *rapid.T) {
					s := correctRun(rt)
					s.check(rt)
					for _, id := range rapid.Permutation(s.ids()).Draw(rt, "order") {
						if kind := inflict(s, id); kind != "" {
							inflicted++
							s.check(rt, kind+" "+id)
							return
						}
					}
				})
			}
			if inflicted == 0 {
				t.Error("no run could be damaged like that")
			}
		})
	}
}

func (s *simulation) ids() []string {
	var ids []string
	for id := range s.final.Orders {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// all returns the indices of the events of id that are of one of the kinds.
func (s *simulation) all(id string, kinds ...history.Kind) []int {
	var found []int
	for i, e := range s.events {
		if e.Order == id && slices.Contains(kinds, e.Kind) {
			found = append(found, i)
		}
	}
	return found
}

func (s *simulation) is(id, state string) bool { return s.final.Orders[id].State == state }

func (s *simulation) forget(id string, kinds ...history.Kind) {
	s.events = slices.DeleteFunc(s.events, func(e history.Event) bool { return e.Order == id && slices.Contains(kinds, e.Kind) })
}

// note adds an event at the very end.
func (s *simulation) note(id string, kind history.Kind) *history.Event {
	s.events = append(s.events, history.Event{At: 1_000_000_000, Who: "late/1", Order: id, Kind: kind})
	return &s.events[len(s.events)-1]
}

// changes returns the calls of cancel and reschedule.
func (s *simulation) changes(id string) []int { return s.all(id, history.Cancel, history.Reschedule) }

func lose(s *simulation, id string) string {
	if len(s.all(id, history.Published)) == 0 || len(s.changes(id)) > 0 || len(s.all(id, history.Rejected)) > 0 {
		return ""
	}
	s.forget(id, history.Received, history.Effect, history.Acknowledged, history.PayRefused)
	if s.is(id, history.StateClosed) {
		s.final.Orders[id] = history.OrderState{State: history.StatePending}
	}
	return "lost"
}

func deliverEarly(s *simulation, id string) string {
	received, calls := s.all(id, history.Received), s.all(id, history.Publish)
	if len(received) == 0 || len(s.all(id, history.PayRefused)) > 0 {
		return ""
	}
	e := &s.events[received[0]]
	first := s.events[calls[0]]
	if last := s.events[calls[len(calls)-1]]; first.NotBefore-1 < last.At || len(s.all(id, history.Refused)) > 0 || len(s.changes(id)) > 0 {
		return ""
	}
	e.At, e.Due = first.NotBefore-1, 0
	return "early"
}

func closeTwice(s *simulation, id string) string {
	if !s.is(id, history.StateClosed) {
		return ""
	}
	s.final.Orders[id] = history.OrderState{State: history.StateClosed, Closings: 2}
	return "double"
}

func closeAgain(s *simulation, id string) string {
	for _, i := range s.all(id, history.Effect) {
		if s.events[i].Detail == history.EffectClosed {
			s.note(id, history.Effect).Detail = history.EffectClosed
			return "double"
		}
	}
	return ""
}

func payOver(s *simulation, id string) string {
	if !s.is(id, history.StateClosed) {
		return ""
	}
	s.note(id, history.Pay)
	s.note(id, history.Paid)
	return "wrong"
}

func closeOver(s *simulation, id string) string {
	if len(s.all(id, history.Paid)) == 0 {
		return ""
	}
	s.final.Orders[id] = history.OrderState{State: history.StateClosed, Closings: 1}
	return "wrong"
}

func refusePayment(s *simulation, id string) string {
	if s.is(id, history.StateClosed) {
		return ""
	}
	s.note(id, history.Pay)
	s.note(id, history.PayRefused)
	return "wrong"
}

func forgetOrder(s *simulation, id string) string {
	delete(s.final.Orders, id)
	return "wrong"
}

func reopen(s *simulation, id string) string {
	if len(s.all(id, history.Effect)) == 0 {
		return ""
	}
	s.final.Orders[id] = history.OrderState{State: history.StatePending}
	return "wrong"
}

func changeMessage(s *simulation, id string) string {
	received := s.all(id, history.Received)
	if len(received) == 0 {
		return ""
	}
	s.events[rapid.SampledFrom(received).Draw(s.T, "delivery")].Intact = false
	return "wrong"
}

func deliverRefused(s *simulation, id string) string {
	if len(s.all(id, history.Received)) == 0 || len(s.all(id, history.Publish)) > 1 || len(s.all(id, history.Published)) == 0 {
		return ""
	}
	e := &s.events[s.all(id, history.Published)[0]]
	e.Kind, e.Due = history.Refused, 0
	return "wrong"
}

func cancelInVain(s *simulation, id string) string {
	if len(s.all(id, history.Effect)) == 0 || len(s.all(id, history.Publish)) > 1 {
		return ""
	}
	s.note(id, history.Cancel)
	s.note(id, history.Cancelled)
	return "wrong"
}

func quarantine(s *simulation, id string) string {
	if len(s.all(id, history.Effect)) == 0 {
		return ""
	}
	s.leave("delaybridge.quarantine", id, "")
	return "wrong"
}

func deliverCancelled(s *simulation, id string) string {
	if len(s.all(id, history.Cancelled, history.Tombstoned)) == 0 || len(s.all(id, history.Publish)) > 1 ||
		len(s.all(id, history.Received)) > 0 || s.tooSoon(id) {
		return ""
	}
	s.note(id, history.Received).Intact = true
	return "wrong"
}

// tooSoon says whether something was changed before it was published.
func (s *simulation) tooSoon(id string) bool {
	answers := s.all(id, history.Published, history.Unknown)
	return len(answers) == 0 || s.events[s.changes(id)[0]].At <= s.events[answers[0]].At
}

// moved returns the delivery, and the new due time, of an order that was rescheduled
// once, for certain, and received.
func (s *simulation) moved(id string) (received *history.Event, answer history.Event) {
	calls, answers, deliveries := s.changes(id), s.all(id, history.Rescheduled, history.Noted), s.all(id, history.Received)
	if len(calls) != 1 || len(answers) != 1 || len(deliveries) == 0 {
		return nil, history.Event{}
	}
	return &s.events[deliveries[0]], s.events[answers[0]]
}

func deliverMoved(s *simulation, id string) string {
	received, answer := s.moved(id)
	if received == nil || 1000*answer.Due-1 <= answer.At {
		return ""
	}
	received.At, received.Due = 1000*answer.Due-1, 0
	return "early"
}

func deliverOld(s *simulation, id string) string {
	received, answer := s.moved(id)
	if received == nil || answer.Kind != history.Rescheduled {
		return ""
	}
	received.Due = answer.Due - 1
	return "wrong"
}

func sayDelivered(s *simulation, id string) string {
	if len(s.all(id, history.Received)) > 0 || len(s.all(id, history.Cancelled, history.Tombstoned)) == 0 {
		return ""
	}
	s.note(id, history.Cancel)
	s.note(id, history.CancelLate)
	return "wrong"
}

func dropIt(s *simulation, id string) string {
	detail, call := history.DroppedCancelled, history.Cancel
	if s.chance() {
		detail, call = history.DroppedRescheduled, history.Reschedule
	}
	if len(s.all(id, call)) > 0 {
		return ""
	}
	s.note(id, history.Dropped).Detail = detail
	return "wrong"
}

func skipAttempt(s *simulation, id string) string {
	received := s.all(id, history.Received)
	if len(received) == 0 {
		return ""
	}
	e := &s.events[received[len(received)-1]]
	if e.Attempt == 0 { // then nothing came for the first attempt
		return ""
	}
	e.Attempt += 7
	return "wrong"
}

func retryEarly(s *simulation, id string) string {
	failed := s.all(id, history.Failed)
	for _, i := range s.all(id, history.Received) {
		e := &s.events[i]
		if e.Attempt != 1 || len(failed) != 1 {
			continue
		}
		if f := s.events[failed[0]]; f.NotBefore > f.At {
			e.At = f.NotBefore - 1
			return "early"
		}
	}
	return ""
}

func loseRejected(s *simulation, id string) string {
	if len(s.all(id, history.Rejected)) == 0 {
		return ""
	}
	s.final.Leftover = slices.DeleteFunc(s.final.Leftover, func(l history.Left) bool { return l.Order == id })
	return "lost"
}

func otherReason(s *simulation, id string) string {
	for i := range s.final.Leftover {
		if l := &s.final.Leftover[i]; l.Order == id {
			l.Reason = "something else"
			return "wrong"
		}
	}
	return ""
}
