package checker_test

import (
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/internal/fault/history"
)

// never has the message never come.
func never(r *run) {
	r.drop(history.Received, history.Effect, history.Acknowledged)
	r.state(history.StatePending, 0)
}

// received changes the delivery.
func received(r *run, at, due int64) {
	r.change(history.Received, func(e *history.Event) { e.At, e.Due = at, due })
}

const late = due + 5000 // when a moved order is due

// cancelledInQuarantine has somebody cancel what lies in quarantine, so that a consumer drops it
// when it is replayed.
func cancelledInQuarantine(r *run, dropped int64) {
	r.final.Leftover = nil
	r.cancel(32_000_000, history.Cancelled)
	r.attempt(31_900_000, 36_900_000, history.Published, 36_900)
	r.add(dropped, other, history.Dropped).Detail = history.DroppedCancelled
}

func TestGoodChanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from   func() *run
		change func(*run)
	}{
		"rescheduled":                       {movedOrder, func(*run) {}},
		"tried again":                       {retriedOrder, func(*run) {}},
		"rejected":                          {rejectedOrder, func(*run) {}},
		"rejected, cancelled, and replayed": {rejectedOrder, func(r *run) { cancelledInQuarantine(r, 33_000_000) }},
		"at the microsecond":                {movedOrder, func(r *run) { received(r, 1000*late, late) }},
		"earlier": {closedOrder, func(r *run) {
			r.reschedule(2_000_000, 3000, history.Rescheduled)
			received(r, 3_000_000, 3000)
		}},
		"to an instant that has passed": {closedOrder, func(r *run) {
			r.reschedule(2_000_000, 1999, history.Rescheduled)
			received(r, 2_000_050, 1999)
		}},
		"twice": {movedOrder, func(r *run) {
			r.reschedule(3_000_000, 4000, history.Rescheduled)
			received(r, 4_000_000, 4000)
		}},
		"the old copy is dropped": {movedOrder, func(r *run) {
			r.add(1000*due+5, other, history.Dropped).Detail = history.DroppedRescheduled
		}},
		"without an answer, and it happened, earlier": {closedOrder, func(r *run) {
			r.reschedule(2_000_000, 3000, history.RescheduleUnknown)
			received(r, 3_000_000, 3000)
		}},
		"without an answer, and it did not happen": {closedOrder, func(r *run) { r.reschedule(2_000_000, late, "") }},
		"without an answer, and it happened after the next one": {movedOrder, func(r *run) {
			r.reschedule(1_900_000, 3000, "")
			received(r, 3_000_000, 3000)
		}},
		"a definite no": {closedOrder, func(r *run) { r.reschedule(2_000_000, 3000, history.RescheduleRefused) }},
		"nothing known, to later": {closedOrder, func(r *run) {
			r.reschedule(2_000_000, late, history.Noted)
			r.drop(history.Received, history.Effect, history.Acknowledged)
			r.deliver(1000*late, consumer, history.EffectClosed)
		}},
		"nothing known, to earlier, and it comes at its old time": {closedOrder, func(r *run) {
			r.reschedule(2_000_000, 3000, history.Noted)
		}},
		"nothing known, since it was not published yet": {closedOrder, func(r *run) {
			r.reschedule(500_000, late, history.Noted)
		}},
		"nothing known, by a clock that is ahead": {closedOrder, func(r *run) {
			r.change(history.Publish, func(e *history.Event) { e.Ahead = 60_000_000 })
			r.reschedule(2_000_000, late, history.Noted)
		}},
		"the second message, after the first one was due": {closedOrder, func(r *run) {
			r.attempt(1_100_000, asked+5, history.Unknown, 0)
			r.reschedule(1000*due+200, late, history.Rescheduled)
		}},
		"published twice, and rescheduled": {movedOrder, func(r *run) {
			r.attempt(1_500_000, asked+500_000, history.Published, 0)
		}},
		"published twice and rescheduled to earlier, and the second came to the bridge later": {closedOrder, func(r *run) {
			r.attempt(1_500_000, asked+400_000, history.Published, 0)
			r.reschedule(2_000_000, 3000, history.Rescheduled)
			received(r, 3_000_000, 3000)
			r.deliver(33_100_000, other, history.EffectAlreadyClosed)
			r.events[len(r.events)-3].Due = 33_000
		}},
		"published again after it was cancelled": {closedOrder, func(r *run) {
			never(r)
			r.cancel(2_000_000, history.Cancelled)
			r.attempt(3_000_000, asked+2_000_000, history.Published, 0)
		}},
		"published twice, and the second cancelled while a consumer asked about the first one": {closedOrder, func(r *run) {
			r.attempt(1_500_000, asked+500_000, history.Published, 0)
			r.cancel(1000*due+200, history.Cancelled)
			r.change(history.Received, func(e *history.Event) { e.Asked = 1000*due + 250 })
		}},
		"published twice, and the second cancelled when the first one had come, which comes again": {closedOrder, func(r *run) {
			r.attempt(1_500_000, asked+500_000, history.Published, 0)
			r.cancel(31_005_000, history.Cancelled)
			r.deliver(31_006_000, other, history.EffectAlreadyClosed)
		}},
		"one that was due, of two out of the inbox": {closedOrder, func(r *run) {
			throughInbox(r)
			r.reschedule(1000*due+200, late, history.Rescheduled)
		}},
		"one that was due, of two out of the inbox, and the other was overdue when it was taken in": {closedOrder, func(r *run) {
			throughInbox(r)
			r.fault(1_500_000, "kill -9 bridge-1")
			r.reschedule(1000*due+200, late, history.Rescheduled)
			received(r, 31_002_000, 0)
		}},
		"one that was due, of two out of the inbox, and it was delivered once more": {closedOrder, func(r *run) {
			throughInbox(r)
			r.cancel(1000*due+3_000_000, history.CancelLate).Since = due + 2000
		}},
		"earlier, and the inbox gave it out again after that, since a bridge was killed": {closedOrder, func(r *run) {
			r.fault(1_500_000, "kill -9 bridge-1")
			takenInTwice(r, 3500)
		}},
		"earlier, and the inbox gave it out again just before that, and it was parked after it": {closedOrder, func(r *run) {
			r.fault(1_500_000, "kill -9 bridge-1")
			takenInTwice(r, 2600)
		}},
		"too late": {closedOrder, func(r *run) {
			r.reschedule(31_002_500, late, history.RescheduleLate).Since = 31_002
		}},
		"too late, and the handler comes after it": {closedOrder, func(r *run) {
			r.cancel(31_001_500, history.CancelLate).Since = due
		}},
		"cancelled before": {closedOrder, func(r *run) {
			never(r)
			r.cancel(2_000_000, "")
			r.reschedule(3_000_000, late, history.RescheduleCancelled)
		}},
		"cancelled twice": {closedOrder, func(r *run) {
			never(r)
			r.cancel(2_000_000, history.Cancelled)
			r.cancel(3_000_000, history.Cancelled)
		}},
		"the second message is cancelled, after the first one was handled": {closedOrder, func(r *run) {
			r.change(history.Published, func(e *history.Event) { e.Kind, e.Due = history.Unknown, 0 })
			r.attempt(31_005_000, 40_000_000, history.Published, 40_000)
			r.cancel(31_007_000, history.Cancelled)
		}},
		"a tombstone": {closedOrder, func(r *run) {
			never(r)
			r.cancel(2_000_000, history.Tombstoned)
			r.add(1000*due+5, other, history.Dropped).Detail = history.DroppedCancelled
		}},
		"a tombstone of what was not published yet": {closedOrder, func(r *run) { r.cancel(500_000, history.Tombstoned) }},
		"no to cancelling":                          {closedOrder, func(r *run) { r.cancel(2_000_000, history.CancelRefused) }},
		"failed twice in consumers that were killed": {retriedOrder, func(r *run) {
			r.add(31_900_000, other, history.Received).Intact = true
			r.add(31_950_000, other, history.Failed).NotBefore = 33_000_000
		}},
		"in quarantine twice": {rejectedOrder, func(r *run) { r.leave("delaybridge.quarantine", order, "spoilt") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := c.from()
			c.change(r)
			r.check(t)
		})
	}
}

func throughInbox(r *run) {
	r.change(history.Placed, func(e *history.Event) { e.Detail = history.ThroughInbox })
	r.change(history.Published, func(e *history.Event) { e.Due = 0 })
}

// takenInTwice has an order rescheduled to 3000 ms and delivered then. A bridge takes it from
// the inbox again at an instant in ms, and parks it for 30 s.
func takenInTwice(r *run, again int64) {
	throughInbox(r)
	r.reschedule(2_000_000, 3000, history.Rescheduled)
	received(r, 3_000_000, 3000)
	e := r.add(1000*(again+30_000)+100_000, other, history.Received)
	e.Intact, e.Due = true, again+30_000
}

func TestBadChanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from   func() *run
		damage func(*run)
		want   []string
		why    string // a part of what is said
	}{
		"early: by a microsecond before the new time": {
			movedOrder, func(r *run) { received(r, 1000*late-1, 0) }, []string{early}, "1µs before the due time that rescheduling returned",
		},
		"early: before the time that was noted": {
			closedOrder, func(r *run) {
				r.reschedule(2_000_000, late, history.Noted)
				received(r, 31_002_000, 0)
			}, []string{early}, "before the due time that rescheduling returned",
		},
		"early: before the earlier time": {
			closedOrder, func(r *run) {
				r.reschedule(2_000_000, 3000, history.Rescheduled)
				received(r, 2_999_999, 0)
			}, []string{early}, "1µs before the due time that rescheduling returned",
		},
		"early: a reschedule without an answer, which had not begun": {
			closedOrder, func(r *run) {
				received(r, 3_000_000, 0)
				r.reschedule(3_000_001, 3000, history.RescheduleUnknown)
			}, []string{early}, "before any attempt asked for",
		},
		"early: a reschedule without an answer does not ask for that": {
			closedOrder, func(r *run) {
				r.reschedule(2_000_000, 3000, history.RescheduleUnknown)
				received(r, 2_999_999, 0)
			}, []string{early}, "1µs before any attempt asked for",
		},
		"early: a reschedule that was refused": {
			closedOrder, func(r *run) {
				r.reschedule(2_000_000, 3000, history.RescheduleRefused)
				received(r, 3_000_000, 0)
			}, []string{early}, "before any attempt asked for",
		},
		"early: the first of two reschedules": {
			movedOrder, func(r *run) {
				r.reschedule(1_500_000, 3000, history.Rescheduled)
				received(r, 3_000_000, 0)
			}, []string{early}, "before the due time that rescheduling returned",
		},
		"early: tried again too soon": {
			retriedOrder, func(r *run) {
				r.change(history.Received, func(e *history.Event) {
					if e.Attempt == 1 {
						e.At, e.Due = 31_999_999, 0
					}
				})
			}, []string{early}, "1µs before the handler wanted it",
		},
		"lost: rescheduled, never received": {
			movedOrder, never, []string{lost}, "never received",
		},
		"lost: rejected, and nowhere": {
			rejectedOrder, func(r *run) { r.final.Leftover = nil }, []string{lost}, "not in quarantine",
		},
		"lost: rejected, nowhere, and cancelled before that": {
			rejectedOrder, func(r *run) { cancelledInQuarantine(r, 31_002_000) }, []string{lost, wrong}, "not in quarantine",
		},
		"lost: to cancel was refused": {
			closedOrder, func(r *run) {
				never(r)
				r.cancel(2_000_000, history.CancelRefused)
			}, []string{lost}, "never received",
		},
		"wrong: rescheduled, and it came at its old time too": {
			movedOrder, func(r *run) {
				e := r.add(1000*late+50, other, history.Received)
				e.Intact, e.Due = true, due
			}, []string{wrong}, "another due time than the new one",
		},
		"wrong: rescheduled to earlier, and the inbox gave it out again, though every bridge ended in order": {
			closedOrder, func(r *run) {
				r.fault(1_500_000, "bridge-1 "+history.Orderly)
				takenInTwice(r, 3500)
			}, []string{wrong}, "another due time than the new one",
		},
		"wrong: rescheduled to earlier, and a copy that was taken in before that came too": {
			closedOrder, func(r *run) {
				r.fault(1_500_000, "kill -9 bridge-1")
				takenInTwice(r, 2400)
			}, []string{wrong}, "another due time than the new one",
		},
		"wrong: rescheduled to earlier, and a copy that was taken in before the fault came too": {
			closedOrder, func(r *run) {
				takenInTwice(r, 3500)
				r.fault(3_600_000, "kill -9 bridge-1")
			}, []string{wrong}, "another due time than the new one",
		},
		"early: rescheduled before it was due, out of the inbox": {
			closedOrder, func(r *run) {
				throughInbox(r)
				r.reschedule(2_000_000, late, history.Rescheduled)
			}, []string{early, wrong}, "before the due time that rescheduling returned",
		},
		"early: rescheduled when it was due, and delivered without a due time, though nothing was cut short": {
			closedOrder, func(r *run) {
				throughInbox(r)
				r.reschedule(1000*due+200, late, history.Rescheduled)
				received(r, 31_002_000, 0)
			}, []string{early}, "before the due time that rescheduling returned",
		},
		"early: rescheduled when it was due, and not out of the inbox": {
			closedOrder, func(r *run) { r.reschedule(1000*due+200, late, history.Rescheduled) },
			[]string{early, wrong}, "before the due time that rescheduling returned",
		},
		"wrong: rescheduled after it was received": {
			closedOrder, func(r *run) { r.reschedule(31_003_000, 31_001, history.Rescheduled) }, []string{wrong}, "rescheduled, though consumer-1/1 had received it",
		},
		"wrong: unknown after it was received": {
			closedOrder, func(r *run) { r.reschedule(31_003_000, 31_001, history.Noted) }, []string{wrong}, "noted, though consumer-1/1 had received it",
		},
		"wrong: too late before it was due": {
			closedOrder, func(r *run) { r.cancel(2_000_000, history.CancelLate) }, []string{wrong}, "before it could be",
		},
		"wrong: too late before the new time": {
			movedOrder, func(r *run) { r.reschedule(32_000_000, 60_000, history.RescheduleLate) }, []string{wrong}, "before it could be",
		},
		"wrong: too late, and the outcome of publish unknown": {
			closedOrder, func(r *run) {
				never(r)
				r.drop(history.Published)
				r.cancel(32_000_000, history.CancelLate)
			}, []string{wrong}, "never received",
		},
		"wrong: delivered later than it was received": {
			closedOrder, func(r *run) { r.cancel(31_004_000, history.CancelLate).Since = 31_003 }, []string{wrong}, "received before it was delivered",
		},
		"wrong: published twice, cancelled, and received": {
			closedOrder, func(r *run) {
				r.attempt(1_500_000, asked+500_000, history.Published, 0)
				r.cancel(2_000_000, history.Cancelled)
			}, []string{wrong}, "cancelled by customers/1, and received by consumer-1/1",
		},
		"wrong: published twice, the second cancelled, and the first one, which was due, received after that": {
			closedOrder, func(r *run) {
				r.attempt(1_500_000, asked+500_000, history.Published, 0)
				r.cancel(1000*due+200, history.Cancelled)
				r.change(history.Received, func(e *history.Event) { e.Asked = 1000*due + 301 })
			}, []string{wrong}, "cancelled by customers/1, and received by consumer-1/1",
		},
		"wrong: one that was due cancelled, of two out of the inbox, and received": {
			closedOrder, func(r *run) {
				throughInbox(r)
				r.cancel(1000*due+200, history.Cancelled)
			}, []string{wrong}, "cancelled by customers/1, and received by consumer-1/1",
		},
		"lost: published again after it had come, and that never came": {
			closedOrder, func(r *run) {
				r.attempt(32_000_000, 33_000_000, history.Published, 0)
			}, []string{lost}, "published by customers/1, and not received after that",
		},
		"lost: to cancel had no answer, and Redis does not hold it as cancelled": {
			closedOrder, func(r *run) {
				never(r)
				r.cancel(2_000_000, history.CancelUnknown)
				r.final.Tombstones = []string{}
			}, []string{lost}, "never received",
		},
		"wrong: published twice, rescheduled, cancelled, and received": {
			movedOrder, func(r *run) {
				r.attempt(1_500_000, asked+500_000, history.Published, 0)
				r.cancel(3_000_000, history.Cancelled)
			}, []string{wrong}, "cancelled by customers/1, and received by consumer-1/1",
		},
		"wrong: published twice, and a copy cancelled that was not due, after another one that was": {
			closedOrder, func(r *run) {
				r.attempt(1_500_000, asked+500_000, history.Published, 0)
				r.cancel(1000*due+200, history.Cancelled)
				r.deliver(31_502_000, other, history.EffectAlreadyClosed)
				r.events[len(r.events)-3].Due = 31_501
			}, []string{wrong}, "cancelled by customers/1, and received by consumer-2/1",
		},
		"wrong: published twice, rescheduled to later, and received before that": {
			closedOrder, func(r *run) {
				r.attempt(1_500_000, asked+500_000, history.Published, 0)
				r.reschedule(2_000_000, late, history.Rescheduled)
			}, []string{wrong}, "4.999s before the new time",
		},
		"wrong: published twice, rescheduled to earlier, and received at an old time too": {
			closedOrder, func(r *run) {
				r.attempt(1_500_000, asked+500_000, history.Published, 0)
				r.reschedule(3_000_000, 4000, history.Rescheduled)
				received(r, 4_000_000, 4000)
				r.deliver(31_502_000, other, history.EffectAlreadyClosed)
				r.events[len(r.events)-3].Due = 31_501
			}, []string{wrong}, "at an old time too",
		},
		"wrong: cancelled before, by nobody": {
			closedOrder, func(r *run) { r.reschedule(2_000_000, late, history.RescheduleCancelled) }, []string{wrong}, "nobody had cancelled it",
		},
		"wrong: cancelled, and received without effect": {
			closedOrder, func(r *run) {
				r.drop(history.Effect, history.Acknowledged)
				r.state(history.StatePending, 0)
				r.cancel(2_000_000, history.Cancelled)
			}, []string{wrong}, "cancelled by customers/1, and received",
		},
		"wrong: a tombstone, and received": {
			closedOrder, func(r *run) { r.cancel(2_000_000, history.Tombstoned) }, []string{wrong}, "tombstoned by customers/1, and received",
		},
		"wrong: dropped, and nobody cancelled it": {
			closedOrder, func(r *run) {
				r.reschedule(2_000_000, 31_001, history.Rescheduled)
				r.add(31_001_500, other, history.Dropped).Detail = history.DroppedCancelled
			}, []string{wrong}, "dropped it as cancelled, which it was not",
		},
		"wrong: dropped before anybody rescheduled it": {
			movedOrder, func(r *run) {
				r.add(1_999_999, other, history.Dropped).Detail = history.DroppedRescheduled
			}, []string{wrong}, "dropped it as rescheduled, which it was not",
		},
		"wrong: the third attempt after the first": {
			retriedOrder, func(r *run) {
				r.change(history.Received, func(e *history.Event) { e.Attempt *= 2 })
			}, []string{wrong}, "attempt 3, and none before that has failed",
		},
		"wrong: a second attempt, and none has failed": {
			retriedOrder, func(r *run) { r.drop(history.Failed) }, []string{wrong}, "none before that has failed",
		},
		"wrong: rejected and closed": {
			rejectedOrder, func(r *run) {
				r.deliver(31_005_000, other, history.EffectClosed)
				r.state(history.StateClosed, 1)
			}, []string{wrong}, "rejected, and had an effect",
		},
		"wrong: in quarantine for another reason": {
			rejectedOrder, func(r *run) { r.final.Leftover[0].Reason = "what" }, []string{wrong}, "lies in delaybridge.quarantine (what)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := c.from()
			c.damage(r)
			report := r.check(t, c.want...)
			var all []string
			for _, v := range report.Violations {
				all = append(all, v.String())
			}
			if said := strings.Join(all, "\n"); !strings.Contains(said, c.why) {
				t.Errorf("said %s; want %q in it", said, c.why)
			}
		})
	}
}
