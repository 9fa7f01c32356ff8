package checker_test

import (
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/internal/fault/history"
)

const (
	lost, early, double, wrong = "lost " + order, "early " + order, "double " + order, "wrong " + order
	other                      = "consumer-2/1"
)

func TestBadHistories(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from   func() *run
		damage func(*run)
		want   []string
		why    string // a part of what is said
	}{
		"lost: published, never received": {
			closedOrder, func(r *run) {
				r.drop(history.Received, history.Effect, history.Acknowledged)
				r.state(history.StatePending, 0)
			},
			[]string{lost}, "never received",
		},
		"lost: of two attempts one published": {
			closedOrder, func(r *run) {
				r.drop(history.Received, history.Effect, history.Acknowledged)
				r.state(history.StatePending, 0)
				r.attempt(500_000, asked, history.Unknown, 0)
			},
			[]string{lost}, "never received",
		},
		"lost: though paid": {
			paidOrder, func(r *run) {
				r.drop(history.Received, history.Effect, history.Acknowledged)
			},
			[]string{lost}, "never received",
		},
		"lost: lies somewhere": {
			closedOrder, func(r *run) {
				r.drop(history.Received, history.Effect, history.Acknowledged)
				r.state(history.StatePending, 0)
				r.leave("redis", order, "")
				r.leave("delaybridge.unrouted", order, "nobody")
			},
			[]string{lost}, "lies in redis; lies in delaybridge.unrouted (nobody)",
		},
		"lost: received without effect": {
			closedOrder, func(r *run) {
				r.drop(history.Effect, history.Acknowledged)
				r.state(history.StatePending, 0)
			},
			[]string{lost}, "never an effect",
		},
		"lost: the outcome unknown, but received": {
			closedOrder, func(r *run) {
				r.drop(history.Effect, history.Acknowledged, history.Published)
				r.state(history.StatePending, 0)
			},
			[]string{lost}, "never an effect",
		},
		"lost: cancel came too late": {
			closedOrder, func(r *run) {
				r.drop(history.Received, history.Effect, history.Acknowledged)
				r.state(history.StatePending, 0)
				r.add(2_000_000, customer, history.Cancel)
				r.add(2_000_100, customer, history.CancelLate)
			},
			[]string{lost, wrong}, "said to be delivered, and never received",
		},
		"early: by a microsecond before what was asked for": {
			closedOrder, func(r *run) {
				r.change(history.Received, func(e *history.Event) { e.At, e.Due = asked-1, 0 })
				r.drop(history.Published)
			},
			[]string{early}, "1µs before any attempt asked for",
		},
		"early: by a microsecond before what was promised": {
			closedOrder, func(r *run) {
				r.change(history.Received, func(e *history.Event) { e.At, e.Due = 1000*due-1, 0 })
			},
			[]string{early}, "1µs before the due time that publish returned",
		},
		"early: by a microsecond before what it carries": {
			closedOrder, func(r *run) {
				r.change(history.Received, func(e *history.Event) { e.At = 1000*due - 1 })
				r.drop(history.Published)
			},
			[]string{early}, "1µs before the due time that it carries",
		},
		"early: the attempt that asked for it was refused": {
			closedOrder, func(r *run) {
				r.drop(history.Published)
				r.change(history.Received, func(e *history.Event) { e.At, e.Due = asked-1, 0 })
				r.attempt(500_000, asked-500_000, history.Refused, 0)
			},
			[]string{early}, "1µs before any attempt",
		},
		"early: the attempt that asked for it had not begun": {
			closedOrder, func(r *run) {
				r.change(history.Received, func(e *history.Event) { e.At, e.Due = asked-10, 0 })
				r.attempt(asked-9, asked-10, history.Unknown, 0)
			},
			[]string{early}, "10µs before any attempt",
		},
		"early: the smallest of two promises": {
			closedOrder, func(r *run) {
				r.change(history.Received, func(e *history.Event) { e.At, e.Due = 1000*due-1, 0 })
				r.attempt(2_000_000, asked, history.Published, due+5)
			},
			[]string{early}, "1µs before the due time that publish returned",
		},
		"early: the attempt that asked for it was refused by another process": {
			closedOrder, func(r *run) {
				r.drop(history.Published)
				r.change(history.Received, func(e *history.Event) { e.At, e.Due = 20_000_001, 0 })
				r.add(400_000, "customers/2", history.Publish).NotBefore = 20_000_000
				r.add(1_000_500, "customers/2", history.Refused)
			},
			[]string{early}, "before any attempt asked for",
		},
		"lost: the call was not written": {
			closedOrder, func(r *run) {
				r.drop(history.Publish, history.Received, history.Effect, history.Acknowledged)
				r.state(history.StatePending, 0)
			},
			[]string{lost}, "never received",
		},
		"wrong: not in the store, and nobody placed it": {
			closedOrder, func(r *run) {
				r.drop(history.Placed)
				delete(r.final.Orders, order)
			},
			[]string{wrong}, "not in the order store",
		},
		"early: only the duplicate": {
			closedOrder, func(r *run) {
				r.add(asked-1, other, history.Received).Intact = true
			},
			[]string{early}, "received by consumer-2/1",
		},
		"double: by the store's log": {
			closedOrder, func(r *run) {
				r.state(history.StateClosed, 2)
			},
			[]string{double}, "2 times",
		},
		"double: by effects": {
			closedOrder, func(r *run) {
				r.deliver(31_005_000, other, history.EffectClosed)
			},
			[]string{double}, "2 effects",
		},
		"wrong: paid, and the store says closed": {
			paidOrder, func(r *run) {
				r.drop(history.Effect)
				r.state(history.StateClosed, 1)
			},
			[]string{wrong}, "a payment was accepted; but the store's log says that it was closed, the store says closed",
		},
		"wrong: paid, and an effect says closed": {
			paidOrder, func(r *run) {
				r.change(history.Effect, func(e *history.Event) { e.Detail = history.EffectClosed })
			},
			[]string{wrong}, "effect was \"closed\"",
		},
		"wrong: paid, and an effect says closed before": {
			paidOrder, func(r *run) {
				r.change(history.Effect, func(e *history.Event) { e.Detail = history.EffectAlreadyClosed })
			},
			[]string{wrong}, "already closed",
		},
		"wrong: paid after the close": {
			closedOrder, func(r *run) {
				r.add(40_000_000, customer, history.Pay)
				r.add(40_000_100, customer, history.Paid)
			},
			[]string{wrong}, "a payment was accepted; but",
		},
		"wrong: paid, and the log says closed": {
			paidOrder, func(r *run) {
				r.state(history.StatePaid, 1)
			},
			[]string{wrong}, "the store's log says that it was closed",
		},
		"wrong: paid, and the store still waits": {
			paidOrder, func(r *run) {
				r.drop(history.Effect, history.Acknowledged)
				r.deliver(32_000_000, other, history.EffectLeftAlone)
				r.state(history.StatePending, 0)
			},
			[]string{wrong}, "pending, but a payment was accepted",
		},
		"wrong: left alone, but closed": {
			closedOrder, func(r *run) {
				r.add(2_000_000, customer, history.Pay)
				r.deliver(32_000_000, other, history.EffectLeftAlone)
			},
			[]string{wrong}, "left alone",
		},
		"wrong: left alone before anybody paid": {
			paidOrder, func(r *run) {
				r.drop(history.Pay, history.Paid)
				r.add(33_000_000, customer, history.Pay)
				r.add(33_000_100, customer, history.Paid)
			},
			[]string{wrong}, "before anybody tried to pay",
		},
		"wrong: paid, though nobody tried": {
			paidOrder, func(r *run) {
				r.drop(history.Pay, history.Paid, history.Effect)
			},
			[]string{wrong}, "nobody tried to pay",
		},
		"wrong: refused, and nobody closed it": {
			refusedPayment, func(r *run) {
				r.drop(history.Effect, history.Acknowledged)
				r.change(history.Received, func(e *history.Event) { e.At = 31_001_000 })
				r.deliver(32_000_000, other, history.EffectLeftAlone)
				r.state(history.StatePaid, 0)
			},
			[]string{wrong}, "a payment was refused",
		},
		"wrong: refused, and still pending": {
			refusedPayment, func(r *run) {
				r.drop(history.Published, history.Received, history.Effect, history.Acknowledged)
				r.state(history.StatePending, 0)
			},
			[]string{wrong}, "pending, but a payment was refused",
		},
		"wrong: refused before anybody could close it": {
			refusedPayment, func(r *run) {
				r.change(history.PayRefused, func(e *history.Event) { e.At = 31_001_999 })
				r.change(history.Pay, func(e *history.Event) { e.At = 2_000_000 })
			},
			[]string{wrong}, "refused before its message was received",
		},
		"wrong: one payment accepted, one refused": {
			paidOrder, func(r *run) {
				r.add(40_000_000, customer, history.Pay)
				r.add(40_000_100, customer, history.PayRefused)
			},
			[]string{wrong}, "a payment was refused",
		},
		"wrong: closed without the log": {
			closedOrder, func(r *run) {
				r.state(history.StateClosed, 0)
			},
			[]string{wrong}, "not by the store's log",
		},
		"wrong: closed, then pending again": {
			closedOrder, func(r *run) {
				r.drop(history.Acknowledged)
				r.state(history.StatePending, 0)
			},
			[]string{wrong}, "pending, but consumer-1/1's effect was",
		},
		"wrong: acknowledged and pending": {
			closedOrder, func(r *run) {
				r.state(history.StatePending, 0)
			},
			[]string{wrong}, "received and acknowledged",
		},
		"lost and wrong: acknowledged without an effect": {
			closedOrder, func(r *run) {
				r.drop(history.Effect)
				r.state(history.StatePending, 0)
			},
			[]string{lost, wrong}, "received and acknowledged",
		},
		"wrong: closed without a delivery": {
			closedOrder, func(r *run) {
				r.drop(history.Published, history.Received, history.Effect, history.Acknowledged)
			},
			[]string{wrong}, "though its message was never received",
		},
		"wrong: committed through the outbox, and not in the store": {
			closedOrder, func(r *run) {
				r.change(history.Placed, func(e *history.Event) { e.Detail = history.ThroughOutbox })
				delete(r.final.Orders, order)
			},
			[]string{wrong}, "not in the order store",
		},
		"wrong: an effect before the delivery": {
			closedOrder, func(r *run) {
				r.change(history.Effect, func(e *history.Event) { e.At = 31_001_999 })
			},
			[]string{wrong}, "before its message was received",
		},
		"wrong: not in the store": {
			closedOrder, func(r *run) {
				r.drop(history.Published, history.Received, history.Effect, history.Acknowledged)
				delete(r.final.Orders, order)
			},
			[]string{wrong}, "not in the order store",
		},
		"wrong: a state that there is not": {
			closedOrder, func(r *run) {
				r.state("sold", 1)
			},
			[]string{wrong}, "sold",
		},
		"wrong: not intact": {
			closedOrder, func(r *run) {
				r.change(history.Received, func(e *history.Event) { e.Intact = false })
			},
			[]string{wrong}, "something else than what was published",
		},
		"wrong: only the duplicate is not intact": {
			closedOrder, func(r *run) {
				r.add(31_005_000, other, history.Received).Due = due
			},
			[]string{wrong}, "consumer-2/1 received something else",
		},
		"wrong: nobody published it": {
			closedOrder, func(r *run) {
				r.drop(history.Publish, history.Published)
			},
			[]string{wrong}, "nobody had published",
		},
		"wrong: published only later": {
			closedOrder, func(r *run) {
				r.drop(history.Publish, history.Published)
				r.attempt(32_000_000, asked, history.Unknown, 0)
			},
			[]string{wrong}, "nobody had published",
		},
		"wrong: publish had said no": {
			closedOrder, func(r *run) {
				r.change(history.Published, func(e *history.Event) { e.Kind, e.Due = history.Refused, 0 })
			},
			[]string{wrong}, "publish had said no",
		},
		"wrong: in quarantine": {
			closedOrder, func(r *run) {
				r.leave("delaybridge.quarantine", order, "what")
			},
			[]string{wrong}, "lies in delaybridge.quarantine (what)",
		},
		"lost and wrong: in quarantine, never received": {
			closedOrder, func(r *run) {
				r.drop(history.Received, history.Effect, history.Acknowledged)
				r.state(history.StatePending, 0)
				r.leave("delaybridge.quarantine", order, "what")
			},
			[]string{lost, wrong}, "lies in delaybridge.quarantine",
		},
		"wrong: cancelled with an effect": {
			closedOrder, func(r *run) {
				r.drop(history.Effect)
				r.deliver(31_005_000, consumer, history.EffectAlreadyClosed)
				r.add(2_000_000, customer, history.Cancel)
				r.add(2_000_100, customer, history.Cancelled)
			},
			[]string{wrong}, "cancelled by customers/1, and received by consumer-1/1",
		},
		"wrong: cancelled after the effect": {
			closedOrder, func(r *run) {
				r.add(40_000_000, customer, history.Cancel)
				r.add(40_000_100, customer, history.Cancelled)
			},
			[]string{wrong}, "cancelled by customers/1, and received by consumer-1/1",
		},
		"wrong: cancelled, and closed by one who was killed": {
			closedOrder, func(r *run) {
				r.drop(history.Effect, history.Acknowledged)
				r.add(2_000_000, customer, history.Cancel)
				r.add(2_000_100, customer, history.Cancelled)
			},
			[]string{wrong}, "cancelled by customers/1, and received by consumer-1/1",
		},
		"wrong: published twice, cancelled, and delivered": {
			closedOrder, func(r *run) {
				r.attempt(1_500_000, 31_000_000, history.Published, 0)
				r.add(2_000_000, customer, history.Cancel)
				r.add(2_000_100, customer, history.Cancelled)
			},
			[]string{wrong}, "cancelled by customers/1, and received by consumer-1/1",
		},
		"wrong: a message without ID": {
			closedOrder, func(r *run) {
				r.events = append(r.events, history.Event{At: 5_000_000, Who: consumer, Kind: history.Received})
			},
			[]string{"wrong"}, "nobody had published",
		},
		"wrong: an unknown ID": {
			closedOrder, func(r *run) {
				r.events = append(r.events, history.Event{At: 5_000_000, Who: consumer, Kind: history.Received, Order: "o-2", Intact: true})
			},
			[]string{"wrong o-2"}, "nobody had published",
		},
		"wrong: an unknown ID in quarantine": {
			closedOrder, func(r *run) { r.leave("delaybridge.quarantine", "o-2", "") },
			[]string{"wrong o-2"}, "lies in delaybridge.quarantine",
		},
		"wrong: the shop says nothing of a closed order": {
			closedOrder, func(r *run) { r.final.Orders["o-2"] = history.OrderState{State: history.StateClosed, Closings: 1} },
			[]string{"wrong o-2"}, "never received",
		},
		"wrong: stock missing": {
			closedOrder, func(r *run) { r.final.Stock[0].Have-- }, []string{"wrong"}, "sku-1: 9 in stock, want 10",
		},
		"wrong: what is stored contradicts itself": {
			closedOrder, func(r *run) { r.final.Contradictions = []string{"a part has 3 entries"} }, []string{"wrong"}, "a part has 3 entries",
		},
		"wrong: goroutines pile up": {
			closedOrder, func(r *run) { r.final.Processes = []history.Process{{Name: "bridge-1", Old: 131, Fresh: 50}} },
			[]string{"wrong"}, "bridge-1 has 131 goroutines",
		},
		"wrong: stock too much": {
			closedOrder, func(r *run) { r.final.Stock[0].Have++ }, []string{"wrong"}, "sku-1: 11 in stock, want 10",
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
