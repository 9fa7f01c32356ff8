package roles

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/delaybridge/delaybridge/internal/fault/history"
	"github.com/delaybridge/delaybridge/internal/fault/shop"
	"github.com/delaybridge/delaybridge/internal/sleep"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
)

// listEvery is between two listings of all that waits.
const listEvery = 2 * time.Second

// changeTries is how often a customer asks for the same change who gets no answer.
const changeTries = 6

// changeMind cancels and reschedules the order's message as planned, one after the
// other.
func (c *customers) changeMind(ctx context.Context, o *shop.Order, placed time.Time) {
	for _, planned := range o.Changes {
		if planned.Does == "" {
			return
		}
		sleep.For(ctx, time.Until(placed.Add(planned.In)))
		instant := history.After(history.Now(), planned.To)
		wait := 100 * time.Millisecond
		for range changeTries {
			if ctx.Err() != nil || c.change(ctx, o, &planned, instant) {
				break
			}
			sleep.For(ctx, wait)
			wait = min(2*wait, time.Second)
		}
	}
}

// change asks for a change once, and says whether it has an answer.
func (c *customers) change(ctx context.Context, o *shop.Order, planned *shop.Change, instant time.Time) bool {
	ctx, cancel := context.WithTimeout(ctx, PublishPatience)
	defer cancel()
	call := history.Event{At: history.Now(), Kind: history.Cancel, Order: o.ID}
	when := message.At(instant)
	if planned.Does == shop.Reschedules {
		call.Kind, call.NotBefore, call.Detail = history.Reschedule, instant.UnixMicro(), "at an instant"
		if !planned.Instant {
			when = message.After(planned.To)
			call.NotBefore, call.Detail = history.After(call.At, planned.To).UnixMicro(), planned.To.String()
		}
	}
	c.note(call)
	park := c.park.OfEntry(o.Entry)
	var answer redisbridge.Change
	var err error
	if planned.Does == shop.Cancels {
		answer, err = park.Cancel(ctx, o.ID)
	} else {
		answer, err = park.Reschedule(ctx, o.ID, when)
	}
	e := history.Event{Order: o.ID, Kind: kindOf(planned.Does, answer.Outcome, err)}
	switch e.Kind {
	case history.Rescheduled, history.Noted:
		e.Due = answer.Due.UnixMilli()
	case history.CancelLate, history.RescheduleLate:
		e.Since = answer.At.UnixMilli()
	default:
	}
	if err != nil {
		e.Detail = err.Error()
	} else {
		e.Detail = fmt.Sprintf("%s, at %s", answer.Outcome, answer.At.UTC().Format("15:04:05.000"))
	}
	c.note(e)
	return err == nil
}

// look looks the order's message up.
func (c *customers) look(ctx context.Context, o *shop.Order) {
	ctx, cancel := context.WithTimeout(ctx, PublishPatience)
	defer cancel()
	c.note(history.Event{Kind: history.Get, Order: o.ID})
	all, err := c.park.OfEntry(o.Entry).GetAll(ctx, o.MessageID())
	if err != nil {
		return // which leaves the call without an answer
	}
	e := history.Event{Kind: history.Got, Order: o.ID, Detail: history.GotWaiting}
	switch len(all) {
	case 0:
		e.Detail = history.GotNothing
	case 1:
		if !all[0].Due.IsZero() {
			e.Due = all[0].Due.UnixMilli()
		}
		switch all[0].State {
		case redisbridge.StateCancelled:
			e.Detail = history.GotCancelled
		case redisbridge.StateDelivered:
			e.Detail = history.GotDelivered
		default:
		}
	default:
		e.Detail = history.GotSeveral
	}
	c.note(e)
}

// keepListing lists what waits, again and again.
func (c *customers) keepListing(ctx context.Context) {
	for ctx.Err() == nil {
		c.list(ctx)
		sleep.For(ctx, listEvery)
	}
}

func (c *customers) list(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, PublishPatience)
	defer cancel()
	c.note(history.Event{Kind: history.List})
	waiting := map[string]int64{}
	for e, err := range c.park.List(ctx, redisbridge.Filter{}) {
		if err != nil {
			return // which leaves the call without an answer
		}
		if e.ID == e.Message.ID && e.Message.Entry != shop.StrangersEntry().Name { // it is no retry, and an order's
			waiting[e.ID] = e.Due.UnixMilli()
		}
	}
	c.note(history.Event{Kind: history.Listed, Orders: waiting})
}

// kindOf returns what an answer is in the history.
func kindOf(does shop.Changing, outcome redisbridge.Outcome, err error) history.Kind {
	kinds := map[redisbridge.Outcome]history.Kind{
		redisbridge.OutcomeDone: history.Rescheduled, redisbridge.OutcomeRecorded: history.Noted,
		redisbridge.OutcomeDelivered: history.RescheduleLate, redisbridge.OutcomeCancelledBefore: history.RescheduleCancelled,
	}
	unknown, refused := history.RescheduleUnknown, history.RescheduleRefused
	if does == shop.Cancels {
		kinds = map[redisbridge.Outcome]history.Kind{
			redisbridge.OutcomeDone: history.Cancelled, redisbridge.OutcomeRecorded: history.Tombstoned,
			redisbridge.OutcomeDelivered: history.CancelLate, redisbridge.OutcomeCancelledBefore: history.Cancelled,
		}
		unknown, refused = history.CancelUnknown, history.CancelRefused
	}
	switch {
	case errors.Is(err, redisbridge.ErrUnconfirmed):
		return unknown
	case err != nil:
		return refused
	}
	return kinds[outcome]
}
