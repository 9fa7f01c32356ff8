package checker_test

import (
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/internal/fault/history"
)

// The order is due 31 s after the run began, and comes 15 s later.
func TestLate(t *testing.T) {
	t.Parallel()
	outage := func(from, to int64) func(*run) {
		return func(r *run) {
			r.fault(from, "kill -9 RabbitMQ")
			r.add(to, "injector", history.Mended).Detail = "kill -9 RabbitMQ"
		}
	}
	for name, c := range map[string]struct {
		change func(*run)
		late   bool
	}{
		"nothing was broken":                    {func(*run) {}, true},
		"something was, long before":            {outage(1_000_000, 20_000_000), true},
		"something was, just before":            {outage(1_000_000, 28_000_000), false},
		"something is all the time":             {outage(32_000_000, 45_000_000), false},
		"something is, when it is late already": {outage(42_000_000, 45_000_000), true},
		"twice, with too little time between":   {func(r *run) { outage(32_000_000, 33_000_000)(r); outage(44_000_000, 45_000_000)(r) }, false},
		"the fault is felt for longer": {func(r *run) {
			outage(1_000_000, 20_000_000)(r)
			r.change(history.Fault, func(e *history.Event) { e.Aftermath = 20_000_000 })
		}, false},
		"it is rescheduled, and on time by that": {func(r *run) {
			r.reschedule(2_000_000, due+14_000, history.Rescheduled)
			r.change(history.Received, func(e *history.Event) { e.Due = due + 14_000 })
		}, false},
		"nobody knows whether it is rescheduled": {func(r *run) { r.reschedule(2_000_000, due+14_000, "") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := closedOrder()
			r.drop(history.Received, history.Effect, history.Acknowledged)
			r.deliver(1000*due+15_000_000, consumer, history.EffectClosed)
			c.change(r)
			if !c.late {
				r.check(t)
				return
			}
			if report := r.check(t, "late "+order); len(report.Violations) == 1 && !strings.Contains(report.Violations[0].Why, "15s late, though nothing was broken") {
				t.Errorf("said %v", report.Violations)
			}
		})
	}
}
