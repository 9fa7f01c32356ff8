package checker_test

import (
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/internal/fault/history"
)

// judged is a history that the rules of a test object to, or not.
type judged struct {
	change func(*run)
	why    string // a part of what is said; empty if there is nothing to object to
}

func judgeAll(t *testing.T, from func() *run, cases map[string]judged) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := from()
			c.change(r)
			if c.why == "" {
				r.check(t)
				return
			}
			if report := r.check(t, wrong); len(report.Violations) == 1 && !strings.Contains(report.Violations[0].Why, c.why) {
				t.Errorf("said %v; want %q in it", report.Violations, c.why)
			}
		})
	}
}

func TestCopiesOfWhatHasNoID(t *testing.T) {
	t.Parallel()
	const firstID, nextID, againID = "no-id.A", "no-id.B", "no-id.redelivered.C"
	unnamed := func() *run {
		r := closedOrder()
		r.change(history.Placed, func(e *history.Event) { e.Detail = history.WithoutID + " 30s" })
		r.change(history.Published, func(e *history.Event) { e.Due = 0 })
		r.change(history.Received, func(e *history.Event) { e.ID = firstID })
		return r
	}
	copied := func(r *run, id string) {
		r.deliver(31_006_000, other, history.EffectAlreadyClosed)
		r.events[len(r.events)-3].ID = id
	}
	judgeAll(t, unnamed, map[string]judged{
		"it came":                {func(*run) {}, ""},
		"delivered twice":        {func(r *run) { copied(r, firstID) }, ""},
		"published twice":        {func(r *run) { r.attempt(2_000_000, asked+1000, history.Unknown, 0); copied(r, nextID) }, ""},
		"by the broker alone":    {func(r *run) { r.change(history.Received, func(e *history.Event) { e.ID = "" }) }, ""},
		"a copy after a kill":    {func(r *run) { r.fault(1_500_000, "kill -9 bridge-1"); copied(r, againID) }, ""},
		"a copy, and no kill":    {func(r *run) { copied(r, againID) }, "though every bridge that ended was asked to"},
		"a copy after a stop":    {func(r *run) { r.fault(1_500_000, "bridge-1 "+history.Orderly); copied(r, againID) }, "though every bridge"},
		"a copy long after":      {func(r *run) { r.fault(-30_000_000, "kill -9 bridge-1"); copied(r, againID) }, "though every bridge"},
		"a copy that hides":      {func(r *run) { r.fault(1_500_000, "kill -9 bridge-1"); copied(r, nextID) }, "that do not say"},
		"a copy of what was not": {func(r *run) { r.attempt(2_000_000, asked+1000, history.Refused, 0); copied(r, againID) }, "though every bridge"},
	})
}

func TestHeldUpByAnotherQueue(t *testing.T) {
	t.Parallel()
	const slow, fast = "slow", "fast"
	fault := func(r *run, from, to int64, what, queue string) {
		for at, kind := range map[int64]history.Kind{from: history.Fault, to: history.Mended} {
			e := r.add(at, "injector", kind)
			e.Detail, e.Queue = what, queue
		}
	}
	// Due while the other queue answers nothing, as it does when it is published.
	stuck := func() *run {
		r := closedOrder()
		r.change(history.Placed, func(e *history.Event) { e.Queue = fast })
		fault(r, 900_000, 60_000_000, "stuck", slow)
		return r
	}
	lateBy := func(us int64) func(*run) {
		return func(r *run) {
			r.change(history.Received, func(e *history.Event) { e.At += us })
			r.change(history.Effect, func(e *history.Event) { e.At += us })
			r.change(history.Acknowledged, func(e *history.Event) { e.At += us })
		}
	}
	judgeAll(t, stuck, map[string]judged{
		"on time":       {func(*run) {}, ""},
		"a little late": {lateBy(9_000_000), ""},
		"late":          {lateBy(10_000_000), "late, while only slow answered nothing"},
		"of that queue": {func(r *run) {
			lateBy(10_000_000)(r)
			r.change(history.Placed, func(e *history.Event) { e.Queue = slow })
		}, ""},
		"another fault":  {func(r *run) { lateBy(10_000_000)(r); fault(r, 32_000_000, 33_000_000, "redis", "") }, ""},
		"a fault before": {func(r *run) { lateBy(10_000_000)(r); fault(r, 500_000, 600_000, "redis", "") }, "late, while only slow"},
		"not confirmed": {func(r *run) {
			r.change(history.Published, func(e *history.Event) { e.Kind, e.Due = history.Unknown, 0 })
		}, "not confirmed to customers/1"},
		"without an answer": {func(r *run) { r.drop(history.Published) }, "not confirmed to customers/1"},
		"killed meanwhile":  {func(r *run) { r.drop(history.Published); fault(r, 2_000_000, 2_100_000, "kill -9 customers", "") }, ""},
		"confirmed, and lost by Redis long after": {func(r *run) {
			r.add(20_000_000, "customers/1", history.Reschedule).NotBefore = asked
			r.add(20_001_000, "customers/1", history.Rescheduled).Due = due
			lose := r.add(31_500_000, "injector", history.Fault)
			lose.Detail, lose.Loses = "redis loses writes", true
			r.add(32_500_000, "injector", history.Mended).Detail = "redis loses writes"
			r.add(32_000_000, "consumer-1/1", history.Dropped).Detail = history.DroppedRescheduled
		}, ""},
		"refused": {func(r *run) { r.attempt(1_500_000, asked, history.Refused, 0) }, ""},
	})
}
