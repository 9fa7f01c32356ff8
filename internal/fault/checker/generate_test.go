package checker_test

import (
	"cmp"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/delaybridge/delaybridge/internal/fault/history"
)

// simulation makes up correct runs: a shop, a broker that delivers at least once
// and never early, and consumers, any of which may be killed between two steps.
type simulation struct {
	*rapid.T
	run
	lives map[string]int // of each process
}

func correctRun(t *rapid.T) *simulation {
	s := &simulation{T: t, run: run{final: history.Final{Orders: map[string]history.OrderState{}}}, lives: map[string]int{}}
	for n := range rapid.IntRange(1, 4).Draw(t, "orders") {
		s.order(fmt.Sprintf("o-%d", n+1), int64(1+n)*10_000_000+s.upTo(1000))
	}
	s.final.Stock = []history.StockLine{{SKU: "sku-1", Want: 7, Have: 7}}
	return s
}

func (s *simulation) upTo(n int64) int64 { return rapid.Int64Range(0, n).Draw(s.T, "time") }
func (s *simulation) chance() bool       { return rapid.Bool().Draw(s.T, "chance") }

// who returns the present life of a process; killed begins its next one.
func (s *simulation) who(name string) string { return fmt.Sprintf("%s/%d", name, s.lives[name]+1) }
func (s *simulation) killed(name string)     { s.lives[name]++ }

// copyOf is a message that the broker has.
type copyOf struct {
	notBefore, due int64
	arrives        int64 // first, Unix microseconds
	fails          int   // so many attempts to handle it
	rejected       bool  // the next one rejects it
}

// step is one transaction of the order store.
type step struct {
	at  int64
	do  func(state *string) (outcome string) // what the store answers
	say func(outcome string)                 // what is written down afterwards
}

func (s *simulation) order(id string, at int64) {
	note := func(e history.Event) {
		e.Order = id
		s.events = append(s.events, e)
	}
	note(history.Event{At: at, Who: s.who("shop"), Kind: history.Placed, Act: rapid.SampledFrom([]string{"calm", "storm"}).Draw(s.T, "act")})
	copies := s.publish(at, note)
	s.fate(id, at, copies, note)
	copies = slices.DeleteFunc(copies, func(c copyOf) bool { return c.arrives == 0 })

	var steps []step
	for range rapid.IntRange(0, 2).Draw(s.T, "payments") {
		steps = append(steps, s.pay(at, note)...)
	}
	for _, c := range copies {
		steps = append(steps, s.deliver(id, c, note)...)
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	state := history.StatePending
	for _, step := range steps {
		step.say(step.do(&state))
	}
	closings := 0
	if state == history.StateClosed {
		closings = 1
	}
	s.final.Orders[id] = history.OrderState{State: state, Closings: closings}
}

// publish tries until it succeeds, gives up or is killed.
func (s *simulation) publish(at int64, note func(history.Event)) (copies []copyOf) {
	delay := s.upTo(5_000_000)
	parked := s.chance()
	for range rapid.IntRange(0, 4).Draw(s.T, "attempts") {
		at += 1 + s.upTo(1_000_000)
		c := copyOf{notBefore: at + delay}
		if parked {
			c.due = (c.notBefore+999)/1000 + s.upTo(3)
		}
		note(history.Event{At: at, Who: s.who("shop"), Kind: history.Publish, NotBefore: c.notBefore})
		outcome := rapid.SampledFrom([]history.Kind{history.Published, history.Unknown, history.Refused, ""}).Draw(s.T, "outcome")
		if outcome == history.Published || outcome != history.Refused && s.chance() {
			copies = append(copies, c)
		}
		at += s.upTo(2_000_000)
		switch outcome {
		case history.Published:
			note(history.Event{At: at, Who: s.who("shop"), Kind: outcome, Due: c.due})
		case "":
			s.killed("shop")
		default:
			note(history.Event{At: at, Who: s.who("shop"), Kind: outcome})
		}
		if outcome == history.Published && s.chance() {
			break // or publishes again all the same
		}
	}
	return copies
}

// pay calls once; the answer may be lost, and then the call may have failed.
func (s *simulation) pay(at int64, note func(history.Event)) []step {
	at += s.upTo(9_000_000)
	who := s.who("payer")
	note(history.Event{At: at, Who: who, Kind: history.Pay})
	at += s.upTo(1000)
	answered := at + s.upTo(1000)
	heard := rapid.SampledFrom([]string{"yes", "unknown", "killed"}).Draw(s.T, "heard")
	if heard == "unknown" {
		note(history.Event{At: answered, Who: who, Kind: history.PayUnknown})
	}
	if heard != "yes" {
		s.killed("payer")
		if s.chance() {
			return nil
		}
	}
	return []step{{at, func(state *string) string {
		if *state == history.StatePending {
			*state = history.StatePaid
		}
		return *state
	}, func(outcome string) {
		if heard != "yes" {
			return
		}
		kind := history.Paid
		if outcome == history.StateClosed {
			kind = history.PayRefused
		}
		note(history.Event{At: answered, Who: who, Kind: kind})
	}}}
}

// fate decides when the copies arrive and what is made of them. Where there is but
// one, it may be cancelled and rescheduled meanwhile.
func (s *simulation) fate(id string, at int64, copies []copyOf, note func(history.Event)) {
	fails, rejected := rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(s.T, "fails"), rapid.IntRange(0, 9).Draw(s.T, "rejected") == 0
	for i := range copies {
		c := &copies[i]
		c.arrives = max(c.notBefore, 1000*c.due) + s.upTo(100_000)
		c.fails, c.rejected = fails, rejected
	}
	calls := s.all(id, history.Publish)
	if len(calls) != 1 || len(copies) != 1 {
		return
	}
	call := s.events[calls[0]]
	if answers := s.all(id, history.Published, history.Unknown); len(answers) == 1 {
		call.At = s.events[answers[0]].At + 1
		s.alter(at, call.At, &copies[0], note)
	}
}

// alter has a customer change the only copy, one change after the other. What is
// parked is known; what is not becomes so when it arrives and has to wait.
func (s *simulation) alter(placed, published int64, c *copyOf, note func(history.Event)) {
	who, tier := s.who("changer"), int64(0)
	if c.due == 0 {
		tier = c.arrives
	}
	if rapid.IntRange(0, 9).Draw(s.T, "too soon") == 0 { // which changes nothing
		x := min(placed+s.upTo(1000), published-2)
		note(history.Event{At: x, Who: who, Kind: history.Cancel})
		note(history.Event{At: x + 1, Who: who, Kind: history.Tombstoned})
		return // what comes after that is not what it seems
	}
	for x := published; rapid.IntRange(0, 2).Draw(s.T, "another") > 0; {
		x += s.upTo(4_000_000)
		cancel, to := s.chance(), (x+s.upTo(3_000_000))/1000+1
		call := history.Event{At: x, Who: who, Kind: history.Cancel}
		if !cancel {
			call.Kind, call.NotBefore = history.Reschedule, 1000*to
		}
		note(call)
		answer := s.answer(x, cancel, to, tier, c)
		x += 10
		switch answer.Kind {
		case "":
			who = s.who("changer")
		default:
			answer.At, answer.Who = x, who
			note(answer)
		}
	}
}

// answer changes c at the instant x, and returns what the caller hears.
func (s *simulation) answer(x int64, cancel bool, to, tier int64, c *copyOf) history.Event {
	e := history.Event{}
	late, done, noted := history.RescheduleLate, history.Rescheduled, history.Noted
	if cancel {
		late, done, noted = history.CancelLate, history.Cancelled, history.Tombstoned
	}
	heard := rapid.SampledFrom([]string{"yes", "yes", "unknown", "killed", "refused"}).Draw(s.T, "heard")
	if heard == "refused" {
		e.Kind = history.RescheduleRefused
		if cancel {
			e.Kind = history.CancelRefused
		}
		return e
	}
	switch {
	case heard != "yes" && s.chance(): // it never came there
	case c.arrives == 0 && cancel:
		e.Kind = done
	case c.arrives == 0:
		e.Kind = history.RescheduleCancelled
	case x >= c.arrives:
		e.Kind, e.Since = late, c.arrives/1000
	case cancel:
		c.arrives = 0
		e.Kind = done
	default:
		c.due, c.notBefore = to, 0
		c.arrives = max(1000*to, tier) + s.upTo(100_000)
		e.Kind, e.Due = done, to
	}
	if e.Kind == done && x < tier {
		e.Kind = noted
	}
	if heard == "unknown" {
		e = history.Event{Kind: history.RescheduleUnknown}
		if cancel {
			e.Kind = history.CancelUnknown
		}
	}
	if heard == "killed" {
		s.killed("changer")
		return history.Event{}
	}
	return e
}

// deliver delivers a copy until a consumer survives it, and again as often as
// handling it fails.
func (s *simulation) deliver(id string, c copyOf, note func(history.Event)) (steps []step) {
	at, attempt := c.arrives, 0
	for survived := false; !survived; {
		name := rapid.SampledFrom([]string{"consumer-1", "consumer-2"}).Draw(s.T, "consumer")
		who := s.who(name)
		at += s.upTo(100_000)
		e := history.Event{At: at, Who: who, Kind: history.Received, Intact: true, Attempt: attempt}
		if attempt == 0 {
			e.Due = c.due
		}
		note(e)
		killedAfter := rapid.SampledFrom([]string{"nothing", "nothing", "received", "closed", "effect"}).Draw(s.T, "killed after")
		survived = killedAfter == "nothing"
		if !survived {
			s.killed(name)
		}
		at += s.upTo(1000)
		told := at + s.upTo(1000)
		switch {
		case killedAfter == "received":
			continue
		case attempt < c.fails:
			failure := history.Event{At: at, Who: who, Kind: history.Failed, Attempt: attempt}
			if s.chance() {
				failure.NotBefore = at + s.upTo(1_000_000)
			}
			note(failure)
			if survived {
				attempt++
				at = max(at, failure.NotBefore)
				survived = false
			}
			continue
		case c.rejected:
			note(history.Event{At: at, Who: who, Kind: history.Rejected, Detail: "spoilt"})
			if survived {
				s.leave("delaybridge.quarantine", id, "it is spoilt")
			}
			continue
		}
		steps = append(steps, step{at, func(state *string) string {
			switch *state {
			case history.StatePaid:
				return history.EffectLeftAlone
			case history.StateClosed:
				return history.EffectAlreadyClosed
			}
			*state = history.StateClosed
			return history.EffectClosed
		}, func(outcome string) {
			if killedAfter == "closed" {
				return
			}
			note(history.Event{At: told, Who: who, Kind: history.Effect, Detail: outcome})
			if killedAfter != "effect" {
				note(history.Event{At: told + 10, Who: who, Kind: history.Acknowledged})
			}
		}})
		at = told
	}
	return steps
}
