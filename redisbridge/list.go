package redisbridge

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/delaybridge/delaybridge/redisbridge/internal/store"
)

// A Filter says which messages [Park.List] is to list; the zero value means all.
type Filter struct {
	// From and Until bound the due time: From is the first instant, Until is after the
	// last. Zero means no bound.
	From, Until time.Time
	// RoutingKey is what the messages were published with; empty means any.
	RoutingKey string
	// IDPrefix is what their IDs begin with.
	IDPrefix string
	// State is StateParked, StatePromoting or StateInLane; empty means all of these.
	State State
}

func (f Filter) validate() error {
	switch f.State {
	case "", StateParked, StatePromoting, StateInLane:
		return nil
	default:
		return fmt.Errorf("%w: Filter.State is %q: messages are listed that are %s, %s or %s",
			ErrInvalid, f.State, StateParked, StatePromoting, StateInLane)
	}
}

func (f Filter) matches(e *MessageState) bool {
	return (f.From.IsZero() || !e.Due.Before(f.From)) && (f.State == "" || e.State == f.State) &&
		(f.RoutingKey == "" || e.Unreadable == nil && e.Message.RoutingKey == f.RoutingKey)
}

// List lists the messages that wait in Redis or in a lane, in the order in which they
// are due, those that are overdue first. Tiers and the inbox are the broker's. An error
// ends the list.
//
// It reads pages of some hundred messages, each of which takes Redis about a millisecond
// however many there are, and reads on as the caller does. What is listed is no
// snapshot: each message is listed as it was at the instant at which its page was read.
// One that is parked or promoted meanwhile is listed once, if it was there before. One
// that is rescheduled, or returns to the schedule from a bridge that has stopped, may be
// missing, or be listed twice with different due times. With a ParkConfig.Window all of the
// messages in lanes are looked for at the start, among those whose IDs are remembered;
// what enters a lane after that, and before its page is read, is missing.
func (p *Park) List(ctx context.Context, f Filter) iter.Seq2[MessageState, error] {
	return func(yield func(MessageState, error) bool) {
		if err := p.list(ctx, f, func(e MessageState) bool { return yield(e, nil) }); err != nil {
			yield(MessageState{}, fmt.Errorf("list messages: %w", err))
		}
	}
}

func (p *Park) list(ctx context.Context, f Filter, yield func(MessageState) bool) error {
	if err := f.validate(); err != nil {
		return err
	}
	places := map[State]store.Where{StateParked: store.Scheduled, StatePromoting: store.InFlight, StateInLane: store.Kept}
	filter := store.ListFilter{From: f.From, Until: f.Until, IDPrefix: f.IDPrefix, In: places[f.State]}
	return p.store.List(ctx, filter, func(found *store.Found) bool {
		e := p.stateOf(found)
		e.Message, e.Unreadable = found.Outline()
		return !f.matches(&e) || yield(e)
	})
}
