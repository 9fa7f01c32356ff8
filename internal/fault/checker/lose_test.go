package checker_test

import (
	"testing"

	"github.com/delaybridge/delaybridge/internal/fault/checker"
	"github.com/delaybridge/delaybridge/internal/fault/history"
)

// What Redis was told while it lost writes may or may not have happened. What it was told
// before that has.
func TestLostWrites(t *testing.T) {
	t.Parallel()
	losing := func(from, to int64) func(*run) {
		return func(r *run) {
			r.fault(from, "a replica is promoted")
			r.events[len(r.events)-1].Loses = true
			r.add(to, "injector", history.Mended).Detail = "a replica is promoted"
		}
	}
	missing := func(r *run) {
		r.drop(history.Received, history.Effect, history.Acknowledged)
		r.state(history.StatePending, 0)
	}
	throughInbox := func(r *run) {
		r.change(history.Placed, func(e *history.Event) { e.Detail = history.ThroughInbox + " 30s" })
	}
	throughOutbox := func(r *run) {
		r.change(history.Placed, func(e *history.Event) { e.Detail = history.ThroughOutbox + " 30s" })
	}
	movedAndDropped := func(moved, dropped int64) func(*run) {
		return func(r *run) {
			r.reschedule(moved, late, history.Rescheduled)
			r.add(dropped, consumer, history.Dropped).Detail = history.DroppedRescheduled
		}
	}
	publishedAgain := func(r *run) {
		r.reschedule(20_000_000, due, history.Rescheduled)
		r.attempt(35_000_000, 36_000_000, history.Published, 0)
		r.add(40_000_000, consumer, history.Dropped).Detail = history.DroppedRescheduled
	}
	cancelled := func(at int64) func(*run) {
		return func(r *run) { r.cancel(at, history.Cancelled) }
	}
	for name, c := range map[string]struct {
		change   []func(*run)
		violates []string
	}{
		"parked meanwhile, and lost":              {[]func(*run){missing, losing(1_000_500, 2_000_000)}, nil},
		"parked just before, and lost":            {[]func(*run){missing, losing(1_900_000, 2_000_000)}, nil},
		"parked before that, and lost":            {[]func(*run){missing, losing(2_100_000, 3_000_000)}, []string{"lost " + order}},
		"published after that, and lost":          {[]func(*run){missing, losing(900_000, 990_000)}, []string{"lost " + order}},
		"in the inbox before that, and lost":      {[]func(*run){missing, throughInbox, losing(30_000_000, 30_100_000)}, nil},
		"in the outbox before that, and lost":     {[]func(*run){missing, throughOutbox, losing(30_000_000, 30_100_000)}, nil},
		"in the inbox long before that, and lost": {[]func(*run){missing, throughInbox, losing(40_000_000, 41_000_000)}, []string{"lost " + order}},
		"cancelled meanwhile, and comes":          {[]func(*run){cancelled(20_000_000), losing(20_000_050, 20_100_000)}, nil},
		"cancelled meanwhile, and forgotten then": {[]func(*run){missing, cancelled(20_000_000), losing(20_000_050, 20_100_000), func(r *run) { r.final.Tombstones = []string{} }}, nil},
		"cancelled before that, and comes":        {[]func(*run){cancelled(20_000_000), losing(22_000_000, 22_100_000)}, []string{"wrong " + order}},
		"came meanwhile, and is cancelled then":   {[]func(*run){losing(31_001_900, 31_100_000), cancelled(32_000_000)}, nil},
		"its copy was dropped meanwhile, and lost": {
			[]func(*run){missing, movedAndDropped(20_000_000, 31_001_000), losing(31_000_000, 31_500_000)}, nil,
		},
		"its copy was dropped after that, and lost": {
			[]func(*run){missing, movedAndDropped(20_000_000, 32_000_000), losing(31_000_000, 31_500_000)}, []string{"lost " + order},
		},
		"it came meanwhile, and a later one with its ID is taken for its copy": {
			[]func(*run){losing(31_001_900, 31_500_000), publishedAgain}, nil,
		},
		"it came before that, and a later one with its ID is taken for its copy": {
			[]func(*run){losing(34_000_000, 34_500_000), publishedAgain}, []string{"lost " + order},
		},
		"the clock is set back, and a later one with its ID is taken for its copy": {
			[]func(*run){publishedAgain, func(r *run) {
				r.fault(34_000_000, "the clock is wrong")
				r.events[len(r.events)-1].Steps = -900_000
				r.add(42_000_000, "injector", history.Mended).Detail = "the clock is wrong"
			}}, nil,
		},
		"a later one with its ID is taken for its copy": {[]func(*run){publishedAgain}, []string{"lost " + order}},
		"early all the same": {
			[]func(*run){losing(1_000_500, 2_000_000), func(r *run) { r.deliver(asked-1000, consumer, history.EffectAlreadyClosed) }}, []string{"early " + order},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := closedOrder()
			for _, change := range c.change {
				change(r)
			}
			r.check(t, c.violates...)
		})
	}
}

// While an order is under way, and when it is overdue.
func TestUnderway(t *testing.T) {
	t.Parallel()
	open := func(also ...func(*run)) []history.Event {
		r := closedOrder()
		r.drop(history.Received, history.Effect, history.Acknowledged)
		for _, change := range also {
			change(r)
		}
		return r.events
	}
	received := func(r *run) { r.add(1000*due, consumer, history.Received).Intact = true }
	for name, c := range map[string]struct {
		events            []history.Event
		underway, overdue int
	}{
		"published":             {open(), 1, 1},
		"come, without effect":  {open(received), 1, 0},
		"closed":                {closedOrder().events, 0, 0},
		"cancelled":             {open(func(r *run) { r.cancel(2_000_000, history.Cancelled) }), 0, 0},
		"perhaps cancelled":     {open(func(r *run) { r.cancel(2_000_000, "") }), 0, 0},
		"rescheduled":           {open(func(r *run) { r.reschedule(2_000_000, late, history.Rescheduled) }), 1, 0},
		"not published":         {open(func(r *run) { r.change(history.Published, func(e *history.Event) { e.Kind = history.Unknown }) }), 0, 0},
		"published again later": {open(func(r *run) { r.attempt(2_000_000, 60_000_000, history.Published, 0) }), 1, 0},
		"lost by Redis": {open(func(r *run) {
			r.fault(1_000_500, "a replica is promoted")
			r.events[len(r.events)-1].Loses = true
		}), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if n := checker.Underway(c.events); n != c.underway {
				t.Errorf("%d under way, want %d", n, c.underway)
			}
			if n := checker.Overdue(c.events, 40_000_000); n != c.overdue {
				t.Errorf("%d overdue, want %d", n, c.overdue)
			}
			if n := checker.Overdue(c.events, asked); n != 0 {
				t.Errorf("%d overdue before it is due", n)
			}
		})
	}
}

// While tombstones are kept for a moment only, what was cancelled may come, and nothing else may be
// wrong.
func TestForgotten(t *testing.T) {
	t.Parallel()
	forgets := func(from, to int64) func(*run) {
		return func(r *run) {
			r.fault(from, "tombstones go")
			r.events[len(r.events)-1].Forgets = true
			r.add(to, "injector", history.Mended).Detail = "tombstones go"
		}
	}
	cancelled := func(r *run) { r.cancel(2_000_000, history.Cancelled) }
	for name, c := range map[string]struct {
		change   []func(*run)
		violates []string
	}{
		"cancelled, and comes":               {[]func(*run){cancelled, forgets(30_000_000, 30_500_000)}, nil},
		"cancelled after that, and comes":    {[]func(*run){cancelled, forgets(1_500_000, 1_900_000)}, []string{"wrong " + order}},
		"cancelled, and came before that":    {[]func(*run){cancelled, forgets(40_000_000, 41_000_000)}, []string{"wrong " + order}},
		"cancelled, and comes, but too soon": {[]func(*run){cancelled, forgets(1_500_000, 30_500_000), func(r *run) { r.deliver(asked-1000, consumer, history.EffectAlreadyClosed) }}, []string{"early " + order}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := closedOrder()
			for _, change := range c.change {
				change(r)
			}
			r.check(t, c.violates...)
		})
	}
}

// While the clock of Redis is wrong, orders may be early by as much.
func TestWrongClock(t *testing.T) {
	t.Parallel()
	wrong := func(from, to, by int64) func(*run) {
		return func(r *run) {
			r.fault(from, "the clock is wrong")
			r.events[len(r.events)-1].Steps = by
			r.add(to, "injector", history.Mended).Detail = "the clock is wrong"
		}
	}
	early := func(by int64) func(*run) {
		return func(r *run) { r.deliver(asked-by, consumer, history.EffectAlreadyClosed) }
	}
	onlyEarly := func(by int64) func(*run) {
		return func(r *run) {
			r.drop(history.Received, history.Effect, history.Acknowledged)
			r.deliver(asked-by, consumer, history.EffectClosed)
		}
	}
	repeated := func(at int64) func(*run) {
		return func(r *run) { r.attempt(at, at+30_000_000, history.Published, due) }
	}
	for name, c := range map[string]struct {
		change   []func(*run)
		violates []string
	}{
		"early by less":           {[]func(*run){wrong(20_000_000, 21_000_000, 2_000_000), early(1_990_000)}, nil},
		"early by more":           {[]func(*run){wrong(20_000_000, 21_000_000, -2_000_000), early(2_010_000)}, []string{"early " + order}},
		"early by less than both": {[]func(*run){wrong(2_000_000, 3_000_000, -2_000_000), wrong(20_000_000, 21_000_000, 1_000_000), early(2_990_000)}, nil},
		"came early, and repeated when the clock is right and it is not due": {
			[]func(*run){wrong(20_000_000, 30_000_000, 2_000_000), onlyEarly(1_500_000), repeated(asked - 500_000)}, nil,
		},
		"came early, and repeated through the inbox when it is not due": {
			[]func(*run){wrong(20_000_000, 30_000_000, 2_000_000), onlyEarly(1_500_000), func(r *run) {
				r.attempt(asked-500_000, asked+29_500_000, history.Published, 0)
			}}, nil,
		},
		"came early, and repeated through the inbox when it is due": {
			[]func(*run){wrong(20_000_000, 30_000_000, 2_000_000), onlyEarly(1_500_000), func(r *run) {
				r.attempt(asked+500_000, asked+30_500_000, history.Published, 0)
			}}, []string{"lost " + order},
		},
		"came early, and repeated when it is due": {
			[]func(*run){wrong(20_000_000, 30_000_000, 2_000_000), onlyEarly(1_500_000), repeated(asked + 500_000)}, []string{"lost " + order},
		},
		"came, and repeated when the clock was set back": {
			[]func(*run){wrong(32_000_000, 40_000_000, -2_000_000), repeated(32_500_000)}, nil,
		},
		"came, and repeated when the clock was set back by less": {
			[]func(*run){wrong(32_000_000, 40_000_000, -1_000_000), repeated(32_500_000)}, []string{"lost " + order},
		},
		"early when it is right again": {[]func(*run){wrong(100_000, 900_000, 2_000_000), early(1_990_000)}, []string{"early " + order}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := closedOrder()
			for _, change := range c.change {
				change(r)
			}
			r.check(t, c.violates...)
		})
	}
}
