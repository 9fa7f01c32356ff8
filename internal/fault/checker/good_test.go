package checker_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/internal/fault/checker"
	"github.com/delaybridge/delaybridge/internal/fault/history"
)

func TestGoodHistories(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from   func() *run
		change func(*run)
	}{
		"closed":         {closedOrder, func(*run) {}},
		"paid":           {paidOrder, func(*run) {}},
		"paid too late":  {refusedPayment, func(*run) {}},
		"nothing at all": {func() *run { return &run{} }, func(*run) {}},
		"at the microsecond that was promised": {closedOrder, func(r *run) {
			r.change(history.Received, func(e *history.Event) { e.At = 1000 * due })
		}},
		"at the microsecond that was asked for": {closedOrder, func(r *run) {
			r.change(history.Received, func(e *history.Event) { e.At, e.Due = asked, 0 })
			r.change(history.Published, func(e *history.Event) { e.Due = 0 })
		}},
		"before the receipt's due, but another attempt has none": {closedOrder, func(r *run) {
			r.change(history.Received, func(e *history.Event) { e.At, e.Due = 1000*due-1, 0 })
			r.attempt(2_000_000, asked, history.Unknown, 0)
		}},
		"before the receipt's due, but another attempt has no answer": {closedOrder, func(r *run) {
			r.change(history.Received, func(e *history.Event) { e.At, e.Due = 1000*due-1, 0 })
			r.attempt(500_000, asked, "", 0)
		}},
		"by an earlier attempt of which nobody knows": {closedOrder, func(r *run) {
			r.change(history.Received, func(e *history.Event) { e.At, e.Due = 20_000_000, 0 })
			r.attempt(500_000, 20_000_000, history.Unknown, 0)
		}},
		"by the smaller promise": {closedOrder, func(r *run) {
			r.change(history.Received, func(e *history.Event) { e.At, e.Due = 20_000_000, 0 })
			r.attempt(500_000, 20_000_000, history.Published, 20_000)
		}},
		"delivered while publish is still waiting": {closedOrder, func(r *run) {
			r.change(history.Published, func(e *history.Event) { e.At = 31_005_000 })
		}},
		"delivered at the instant of the call": {closedOrder, func(r *run) {
			r.change(history.Publish, func(e *history.Event) { e.NotBefore = e.At })
			r.change(history.Published, func(e *history.Event) { e.Due = 0 })
			r.change(history.Received, func(e *history.Event) { e.At, e.Due = 1_000_100, 0 })
		}},
		"unknown, and it did not happen": {closedOrder, func(r *run) {
			r.drop(history.Received, history.Effect, history.Acknowledged)
			r.change(history.Published, func(e *history.Event) { e.Kind, e.Due = history.Unknown, 0 })
			r.state(history.StatePending, 0)
		}},
		"through the outbox, and never committed": {closedOrder, func(r *run) {
			r.change(history.Placed, func(e *history.Event) { e.Detail = history.ThroughOutbox })
			r.drop(history.Published, history.Received, history.Effect, history.Acknowledged)
			delete(r.final.Orders, order)
		}},
		"unknown, and it happened": {closedOrder, func(r *run) {
			r.change(history.Published, func(e *history.Event) { e.Kind, e.Due = history.Unknown, 0 })
		}},
		"refused": {closedOrder, func(r *run) {
			r.drop(history.Received, history.Effect, history.Acknowledged)
			r.change(history.Published, func(e *history.Event) { e.Kind, e.Due = history.Refused, 0 })
			r.state(history.StatePending, 0)
		}},
		"never published, but taken by the shop": {closedOrder, func(r *run) {
			r.final.Orders["o-2"] = history.OrderState{State: history.StatePending}
		}},
		"duplicates": {closedOrder, func(r *run) {
			r.deliver(31_002_500, other, history.EffectAlreadyClosed)
			r.deliver(31_006_000, consumer, history.EffectAlreadyClosed)
		}},
		"the duplicate tells first": {closedOrder, func(r *run) {
			r.change(history.Effect, func(e *history.Event) { e.At = 31_003_900 })
			r.deliver(31_003_000, other, history.EffectAlreadyClosed)
		}},
		"a duplicate is left in a tier": {closedOrder, func(r *run) { r.leave("delaybridge.tier.5s", order, "") }},
		"payment wins the race": {paidOrder, func(r *run) {
			r.change(history.Pay, func(e *history.Event) { e.At = 31_002_999 })
			r.change(history.Paid, func(e *history.Event) { e.At = 31_003_500 })
		}},
		"close wins the race": {refusedPayment, func(r *run) {
			r.change(history.Pay, func(e *history.Event) { e.At = 31_001_000 })
			r.change(history.PayRefused, func(e *history.Event) { e.At = 31_002_500 })
		}},
		"payment unknown, and it did not happen": {closedOrder, func(r *run) {
			r.add(2_000_000, customer, history.Pay)
			r.add(2_000_100, customer, history.PayUnknown)
		}},
		"payment unknown, and it happened": {paidOrder, func(r *run) {
			r.change(history.Paid, func(e *history.Event) { e.Kind = history.PayUnknown })
		}},
		"payment without an answer, and it happened": {paidOrder, func(r *run) { r.drop(history.Paid) }},
		"cancelled": {closedOrder, func(r *run) {
			r.drop(history.Received, history.Effect, history.Acknowledged)
			r.add(2_000_000, customer, history.Cancel)
			r.add(2_000_100, customer, history.Cancelled)
			r.state(history.StatePending, 0)
		}},
		"cancelled, and the consumer dropped it": {closedOrder, func(r *run) {
			r.drop(history.Received, history.Effect, history.Acknowledged)
			r.cancel(2_000_000, history.Cancelled)
			r.add(31_002_000, consumer, history.Dropped).Detail = history.DroppedCancelled
			r.state(history.StatePending, 0)
		}},
		"cancel unknown, and it happened": {closedOrder, func(r *run) {
			r.drop(history.Received, history.Effect, history.Acknowledged)
			r.add(2_000_000, customer, history.Cancel)
			r.add(2_000_100, customer, history.CancelUnknown)
			r.state(history.StatePending, 0)
		}},
		"cancel without an answer, and it did not happen": {closedOrder, func(r *run) { r.add(2_000_000, customer, history.Cancel) }},
		"cancelled too late": {closedOrder, func(r *run) {
			r.cancel(31_002_500, history.CancelLate)
		}},
		"cancelled, then published again": {closedOrder, func(r *run) {
			r.add(2_000_000, customer, history.Cancel)
			r.add(2_000_100, customer, history.Cancelled)
			r.attempt(3_000_000, asked, history.Published, due)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := c.from()
			c.change(r)
			r.check(t)
		})
	}
}

// A consumer is killed after each of its events. Before the effect is written,
// the store may have closed the order or not; the next one finds out.
func TestConsumerKilledBetweenAnyTwoEvents(t *testing.T) {
	t.Parallel()
	own := []history.Kind{history.Received, history.Effect, history.Acknowledged}
	for survive := range len(own) + 1 {
		for _, effect := range []string{history.EffectClosed, history.EffectAlreadyClosed} {
			if survive == 0 && effect == history.EffectAlreadyClosed || survive > 1 && effect == history.EffectClosed {
				continue // nobody else closed it, or somebody did
			}
			t.Run(fmt.Sprintf("after %d, %s", survive, effect), func(t *testing.T) {
				t.Parallel()
				r := closedOrder()
				r.drop(own[survive:]...)
				r.deliver(36_000_000, "consumer-1/2", effect)
				r.check(t)
			})
		}
	}
}

// The shop is killed after each of its events; whatever the servers had by then
// goes its way.
func TestShopKilledBetweenAnyTwoEvents(t *testing.T) {
	t.Parallel()
	happened := []history.Kind{history.Paid, history.Pay, history.Published}
	for n := range len(happened) + 1 {
		r := paidOrder()
		r.drop(happened[:n]...)
		if n >= 2 { // nobody had tried to pay
			r.change(history.Effect, func(e *history.Event) { e.Detail = history.EffectClosed })
			r.state(history.StateClosed, 1)
		}
		r.check(t)
	}
	for _, kinds := range [][]history.Kind{{history.Publish}, {history.Publish, history.Placed}} {
		r := closedOrder()
		r.drop(append(kinds, history.Published, history.Received, history.Effect, history.Acknowledged)...)
		r.state(history.StatePending, 0)
		r.check(t)
	}
}

func TestLateness(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*run)
		want   time.Duration
	}{
		"by the receipt": {func(*run) {}, time.Millisecond},
		"by the smaller receipt": {func(r *run) {
			r.attempt(2_000_000, asked, history.Published, due-5)
		}, 6 * time.Millisecond},
		"by the message": {func(r *run) {
			r.change(history.Published, func(e *history.Event) { e.Due = 0 })
			r.change(history.Received, func(e *history.Event) { e.Due = due - 1 })
		}, 2 * time.Millisecond},
		"by what was asked for": {func(r *run) {
			r.change(history.Published, func(e *history.Event) { e.Due = 0 })
			r.change(history.Received, func(e *history.Event) { e.Due = 0 })
		}, 1900 * time.Microsecond},
		"of the first delivery": {func(r *run) { r.deliver(40_000_000, other, history.EffectAlreadyClosed) }, time.Millisecond},
		"by the new time": {func(r *run) {
			r.reschedule(2_000_000, due-3, history.Rescheduled)
			r.change(history.Received, func(e *history.Event) { e.Due = due - 3 })
		}, 4 * time.Millisecond},
		"early": {func(r *run) {
			r.change(history.Received, func(e *history.Event) { e.At = 1000*due - 7 })
		}, -7 * time.Microsecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := closedOrder()
			c.change(r)
			if got := checker.Check(r.events, r.final); got.Worst != c.want || got.Received != 1 {
				t.Errorf("worst lateness %v of %d, want %v of 1", got.Worst, got.Received, c.want)
			}
		})
	}
}
