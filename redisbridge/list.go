package redisbridge

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"
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
	if err := p.check(ctx); err != nil {
		return err
	}
	var heads []*shardHead
	for n := range p.keys {
		head := &shardHead{list: newShardList(p, n, f)}
		there, err := head.next(ctx)
		if err != nil {
			return err
		}
		if there {
			heads = append(heads, head)
		}
	}
	for len(heads) > 0 {
		first := 0
		for i, head := range heads {
			if isBefore(head.item, heads[first].item) {
				first = i
			}
		}
		if !yield(heads[first].item.MessageState) {
			return nil
		}
		there, err := heads[first].next(ctx)
		if err != nil {
			return err
		}
		if !there {
			heads = slices.Delete(heads, first, first+1)
		}
	}
	return nil
}

// shardHead is the next item of a shard's list.
type shardHead struct {
	list *shardList
	item item
}

// next moves on to the next item that the filter lets through, and returns false at the
// end.
func (h *shardHead) next(ctx context.Context) (there bool, err error) {
	for {
		h.item, there, err = h.list.next(ctx)
		if err != nil || !there {
			return false, err
		}
		if h.list.filter.matches(&h.item.MessageState) {
			return true, nil
		}
	}
}

// isBefore orders items by due time, and then by ID.
func isBefore(a, b item) bool {
	return a.due < b.due || a.due == b.due && a.key < b.key
}
