package history_test

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
type copyOf struct{ notBefore, due int64 }

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

	var steps []step
	for range rapid.IntRange(0, 2).Draw(s.T, "payments") {
		steps = append(steps, s.pay(at, note)...)
	}
	for _, c := range copies {
		steps = append(steps, s.deliver(c, note)...)
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

// deliver delivers a copy until a consumer survives it.
func (s *simulation) deliver(c copyOf, note func(history.Event)) (steps []step) {
	at := max(c.notBefore, 1000*c.due)
	for survived := false; !survived; {
		name := rapid.SampledFrom([]string{"consumer-1", "consumer-2"}).Draw(s.T, "consumer")
		who := s.who(name)
		at += s.upTo(100_000)
		note(history.Event{At: at, Who: who, Kind: history.Received, Due: c.due, Intact: true})
		killedAfter := rapid.SampledFrom([]string{"nothing", "nothing", "received", "closed", "effect"}).Draw(s.T, "killed after")
		survived = killedAfter == "nothing"
		if !survived {
			s.killed(name)
		}
		at += s.upTo(1000)
		told := at + s.upTo(1000)
		if killedAfter == "received" {
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
