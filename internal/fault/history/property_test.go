package history_test

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
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inflicted := 0
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

func lose(s *simulation, id string) string {
	if len(s.all(id, history.Published)) == 0 {
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
	if first.NotBefore-1 < first.At || len(s.all(id, history.Refused)) > 0 {
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
	if len(s.all(id, history.Effect)) == 0 {
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
