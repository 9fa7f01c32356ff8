package checker_test

import (
	"testing"

	"github.com/delaybridge/delaybridge/internal/fault/history"
)

func TestLookUps(t *testing.T) {
	t.Parallel()
	see := func(r *run, at int64, found string) *history.Event {
		r.add(at, customer, history.Get)
		e := r.add(at+100, customer, history.Got)
		e.Detail = found
		return e
	}
	list := func(r *run, at, due int64) { // 0 if the order is not on it
		r.add(at, customer, history.List).Order = ""
		e := r.add(at+100, customer, history.Listed)
		e.Order = ""
		if due > 0 {
			e.Orders = map[string]int64{order: due}
		}
	}
	cancelled := func(r *run) {
		never(r)
		r.cancel(2_000_000, history.Cancelled)
	}
	earlier := func(r *run) {
		r.reschedule(1_500_000, 3000, history.Rescheduled)
		received(r, 3_000_000, 3000)
	}
	judgeAll(t, closedOrder, map[string]judged{
		"waiting":                      {func(r *run) { see(r, 2_000_000, history.GotWaiting).Due = due }, ""},
		"waiting for another due time": {func(r *run) { see(r, 2_000_000, history.GotWaiting).Due = due + 1 }, "for another due time"},
		"waiting, and rescheduled": {func(r *run) {
			r.reschedule(1_500_000, due, history.Rescheduled)
			see(r, 2_000_000, history.GotWaiting).Due = due + 1
		}, ""},
		"nothing, and parked":           {func(r *run) { see(r, 2_000_000, history.GotNothing) }, "though it had been parked"},
		"nothing, and due earlier":      {func(r *run) { earlier(r); see(r, 2_000_000, history.GotNothing) }, "though it had been parked"},
		"nothing, when it came earlier": {func(r *run) { earlier(r); see(r, 4_000_000, history.GotNothing) }, ""},
		"nothing, and moved again after that": {func(r *run) {
			r.reschedule(1_500_000, 3000, history.Rescheduled)
			see(r, 4_000_000, history.GotNothing)
			r.reschedule(5_000_000, due, history.Noted)
		}, ""},
		"nothing, before publish returned":      {func(r *run) { see(r, 1_000_500, history.GotNothing) }, ""},
		"nothing, when it is over":              {func(r *run) { see(r, 50_000_000, history.GotNothing) }, ""},
		"nothing, where it is not parked":       {func(r *run) { throughInbox(r); see(r, 2_000_000, history.GotNothing) }, ""},
		"delivered":                             {func(r *run) { see(r, 31_003_000, history.GotDelivered) }, ""},
		"delivered, as the handler begins":      {func(r *run) { see(r, 31_001_500, history.GotDelivered) }, ""},
		"delivered before it was due":           {func(r *run) { see(r, 30_000_000, history.GotDelivered) }, "before it could be"},
		"delivered, but never received":         {func(r *run) { cancelled(r); see(r, 40_000_000, history.GotDelivered) }, "never received"},
		"cancelled":                             {func(r *run) { cancelled(r); see(r, 3_000_000, history.GotCancelled) }, ""},
		"cancelled by nobody":                   {func(r *run) { see(r, 3_000_000, history.GotCancelled) }, "nobody had cancelled it"},
		"waiting, though it was cancelled":      {func(r *run) { cancelled(r); see(r, 3_000_000, history.GotWaiting) }, "though it had been cancelled"},
		"nothing, though it was cancelled":      {func(r *run) { throughInbox(r); cancelled(r); see(r, 3_000_000, history.GotNothing) }, "though it had been cancelled"},
		"several":                               {func(r *run) { see(r, 3_000_000, history.GotSeveral) }, ""},
		"waiting, cancelled at the instant":     {func(r *run) { cancelled(r); see(r, 2_000_050, history.GotWaiting) }, ""},
		"listed":                                {func(r *run) { list(r, 2_000_000, due) }, ""},
		"listed for another due time":           {func(r *run) { list(r, 2_000_000, due+1) }, "listed by customers/1 as \"waiting\", for another due time"},
		"not listed, and parked":                {func(r *run) { list(r, 2_000_000, 0) }, "listed by customers/1 as \"nothing\", though it had been parked"},
		"not listed, and due soon":              {func(r *run) { list(r, 1000*due-9_000_000, 0) }, ""},
		"not listed, and not parked":            {func(r *run) { throughInbox(r); list(r, 2_000_000, 0) }, ""},
		"not listed, and not published yet":     {func(r *run) { list(r, 1_000_500, 0) }, ""},
		"not listed, and cancelled":             {func(r *run) { cancelled(r); list(r, 3_000_000, 0) }, ""},
		"not listed, and rescheduled meanwhile": {func(r *run) { r.reschedule(1_500_000, due, history.Rescheduled); list(r, 2_000_000, 0) }, ""},
		"listed, though it was cancelled":       {func(r *run) { cancelled(r); list(r, 3_000_000, due) }, "though it had been cancelled"},
		"no list":                               {func(r *run) { r.add(2_000_000, customer, history.List) }, ""},
		"no answer":                             {func(r *run) { r.add(2_000_000, customer, history.Get) }, ""},
	})
}
