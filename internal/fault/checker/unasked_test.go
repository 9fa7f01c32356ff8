package checker_test

import (
	"testing"

	"github.com/delaybridge/delaybridge/internal/fault/history"
)

// The consumer does not ask Redis, and the broker has the message for five seconds before it
// is due: a change until then reaches it.
func TestConsumerThatDoesNotAsk(t *testing.T) {
	t.Parallel()
	const inRedis, withBroker = 1000*due - 5_000_101, 1000*due - 5_000_000 // change answers after 100 µs
	plain := func() *run {
		r := closedOrder()
		r.change(history.Placed, func(e *history.Event) { e.Unasked = 5_000_000 })
		return r
	}
	judgeAll(t, plain, map[string]judged{
		"it came":                                {func(*run) {}, ""},
		"cancelled with the broker":              {func(r *run) { r.cancel(withBroker, history.Cancelled) }, ""},
		"cancelled in Redis":                     {func(r *run) { r.cancel(inRedis, history.Cancelled) }, "cancelled by customers/1, and received"},
		"cancelled before it was published":      {func(r *run) { r.cancel(1_000_000, history.Cancelled) }, ""},
		"cancelled in a tier, by all that it is": {func(r *run) { received(r, 1000*due, 0); r.cancel(inRedis, history.Cancelled) }, ""},
		"nothing was known of it":                {func(r *run) { r.cancel(inRedis, history.Tombstoned) }, ""},
		"rescheduled with the broker":            {func(r *run) { r.reschedule(withBroker, late, history.Rescheduled) }, ""},
		"rescheduled in Redis": {
			func(r *run) { r.reschedule(inRedis, late, history.Rescheduled) }, "another due time than the new one",
		},
		"rescheduled after it had come": {func(r *run) { r.reschedule(40_000_000, 50_000, history.Noted) }, ""},
	})
	r := plain()
	r.reschedule(2_000_000, 20_000, history.Rescheduled)
	r.reschedule(20_000_100, 21_000, history.Noted)
	received(r, 20_000_200, 20_000)
	r.check(t)
	r = plain()
	r.reschedule(withBroker, late, history.Rescheduled)
	received(r, asked-1, 0)
	r.check(t, early)
}
