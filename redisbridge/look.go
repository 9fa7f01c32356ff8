package redisbridge

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store"
	"github.com/delaybridge/delaybridge/topology"
)

// State says where a message is, as far as Redis knows; empty where it knows nothing.
type State string

// The states.
const (
	// StateParked: it waits in Redis for its promotion.
	StateParked State = "parked"
	// StatePromoting: a bridge has claimed it, and is publishing it.
	StatePromoting State = "being promoted"
	// StateInLane: the broker has it, until it is due.
	StateInLane State = "in its lane"
	// StateDue: it was due, and the broker had it. No consumer has told Redis that it
	// has come; those that do not ask [Park.Arrive] never do.
	StateDue State = "due"
	// StateCancelled: it was cancelled. If a copy of it comes, its consumer drops it.
	StateCancelled State = "cancelled"
	// StateDelivered: a consumer has said that it has come.
	StateDelivered State = "delivered"
	// StateMoved: it was rescheduled where Redis did not have it. When it comes, its
	// consumer parks it again until its new due time.
	StateMoved State = "rescheduled on its way"
)

// A MessageState is what Redis knows of a message. Instants are zero where they are unknown.
type MessageState struct {
	// ID is the one that the message is parked under. If that is another than its
	// own, as for a retry, Message has its own.
	ID string
	// Messages is how many messages with the ID Redis knows, where it was looked up.
	Messages int
	State    State
	// Due is when the message is, or was, to be delivered, by Redis' clock.
	Due time.Time
	// Published is when the message was first parked.
	Published time.Time
	// Rescheduled is when the message was last rescheduled. Zero where it was not, not
	// after the millisecond in which it was parked, or where it was cancelled or delivered
	// after that.
	Rescheduled time.Time
	// Ended is when the message was cancelled or delivered.
	Ended time.Time
	// PromoteAt is when it enters its lane, while it is parked or being promoted.
	PromoteAt time.Time
	// Lane is the TTL of the lane that it is meant for, or 0 where it goes straight to
	// the ready exchange. Also 0 where the message is gone.
	Lane time.Duration
	// Path is the way of the message, as far as it is planned, or which it took; empty
	// where that is not known any more.
	Path message.Path
	// Handled says how far consumers are with a message that was delivered, one entry for
	// each queue, the last one first. A queue in which the first attempt has succeeded, or
	// is under way, has none.
	Handled []message.Handling
	// Version counts how often the message was rescheduled while the broker had a copy.
	Version int
	Shard   int
	// Bytes is the size of what Redis keeps of the message. After the end that is no
	// more than a note.
	Bytes int
	// Message is as it was published; the zero value where the message is gone.
	// [Park.List] leaves out headers and body.
	Message message.Message
	// Unreadable says why Message could not be read, or is nil. The message will be put
	// into quarantine when it is promoted.
	Unreadable error

	topology *topology.Topology // names its lane
}

// Get returns what Redis knows of the first message with an ID. The error wraps ErrNotFound
// where it knows nothing. It changes nothing.
func (p *Park) Get(ctx context.Context, id string) (MessageState, error) {
	all, err := p.GetAll(ctx, id)
	if err != nil {
		return MessageState{}, err
	}
	if len(all) == 0 {
		return MessageState{}, fmt.Errorf("look up message %s: %w", id, ErrNotFound)
	}
	return all[0], nil
}

// GetAll returns what Redis knows of all messages with an ID: the first one, and those with
// other content. None is no error.
func (p *Park) GetAll(ctx context.Context, id string) ([]MessageState, error) {
	found, err := p.store.Look(ctx, p.entryName, id)
	if err != nil {
		return nil, fmt.Errorf("look up message %s: %w", id, err)
	}
	all := make([]MessageState, len(found))
	for i := range found {
		all[i] = p.stateOf(&found[i])
		all[i].Messages = len(all)
		if found[i].In != store.Anywhere {
			all[i].Message, all[i].Unreadable = found[i].Message()
		}
	}
	return all, nil
}

// stateOf is what Redis says of a message, without the message itself.
func (p *Park) stateOf(f *store.Found) MessageState {
	e := MessageState{
		ID: f.ID, Shard: f.Shard, Version: f.Version(), Bytes: f.Bytes,
		Due: store.InstantOf(f.Due()), Published: store.InstantOf(f.Published()), topology: p.config.Topology,
	}
	changed := store.InstantOf(f.ParkedAt())
	switch f.State() {
	case store.Cancelled:
		e.State, e.Ended = StateCancelled, changed
		return e
	case store.Delivered:
		e.State, e.Ended = StateDelivered, changed
		e.Path, e.Handled = f.Handlings()
		return e
	case store.Moved:
		e.State, e.Rescheduled = StateMoved, changed
		return e
	case store.Waiting:
	}
	if !changed.Equal(e.Published) {
		e.Rescheduled = changed
	}
	e.Lane = time.Duration(f.Lead(f.PromoteAt, p.config.Topology.Leads())) * time.Millisecond
	e.Path = wire.ReadyPath
	if e.Lane > 0 {
		e.Path = message.Path(wire.LanePath(wire.TTLName(e.Lane)))
	}
	switch {
	case f.In == store.Kept && f.Due() <= f.Now:
		e.State = StateDue
	case f.In == store.Kept:
		e.State = StateInLane
	case f.In == store.InFlight:
		e.State, e.PromoteAt = StatePromoting, store.InstantOf(f.PromoteAt)
	default:
		e.State, e.PromoteAt = StateParked, store.InstantOf(f.PromoteAt)
	}
	return e
}

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
// what enters a lane after that, and before its page is read, is missing. While the number of
// shards changes, a message that moves to another shard meanwhile may be missing.
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

// Stored is what Redis has of a message, for another Redis, prefix or number of shards. As
// JSON it is a line of 'delaybridge export'.
type Stored struct {
	ID    string `json:"id"`
	Entry string `json:"entry,omitempty"`
	// State is StateParked, StateInLane or StateCancelled.
	State     State     `json:"state"`
	Due       time.Time `json:"due,omitzero"`
	Published time.Time `json:"published,omitzero"`
	Version   int       `json:"version,omitempty"`
	// Name is what it is stored under: its ID, unless another message has that, or it is a retry.
	Name []byte `json:"name"`
	// Record is all of it, in the form in which Redis has it.
	Record []byte `json:"record"`
}

// Message reads the message, headers and body included. What was cancelled has none.
func (s Stored) Message() (message.Message, error) {
	r := store.Stored{Key: string(s.Name), Record: store.Record(s.Record)}
	return r.Message()
}

// Export returns what waits in Redis or in a lane, and what was cancelled and is remembered, in no order.
// Each message that was there at the beginning and is there at the end is returned, and once. A message that is
// parked, delivered or cancelled meanwhile may or may not be returned. An error ends it. It reads small pages, and
// needs no more memory than these, so that Redis has time for others. progress is told how much of the whole was read, up
// to 1, and may be nil. While the number of shards changes the error wraps ErrResharding.
func (p *Park) Export(ctx context.Context, progress func(done float64)) iter.Seq2[Stored, error] {
	if progress == nil {
		progress = func(float64) {}
	}
	return func(yield func(Stored, error) bool) {
		errStopped := errors.New("stopped")
		err := p.store.Export(ctx, func(r *store.Stored) error {
			one := Stored{
				ID: r.ID(), Entry: r.Entry(), State: StateParked, Due: store.InstantOf(r.Record.Due()).UTC(),
				Published: store.InstantOf(r.Record.Published()).UTC(), Version: r.Record.Version(),
				Name: []byte(r.Key), Record: []byte(r.Record),
			}
			switch {
			case r.Record.State() == store.Cancelled:
				one.State = StateCancelled
			case r.InLane:
				one.State = StateInLane
			}
			if !yield(one, nil) {
				return errStopped
			}
			return nil
		}, progress)
		if err != nil && !errors.Is(err, errStopped) {
			yield(Stored{}, fmt.Errorf("export messages: %w", err))
		}
	}
}

// Import parks what Export has returned. Where the message waits already nothing changes
// (message.ParkedBefore), so an import that was interrupted may be repeated, until its
// first messages are due. Where another message with its ID waits, it is stored beside that. A
// cancelled ID is cancelled for ParkConfig.Tombstones (message.CancelledBefore), and an overdue
// message is due a second later. Quotas do not count.
//
// The error wraps ErrInvalid where s cannot be read or its entry is not configured, and is otherwise
// that of [Park.Park].
func (p *Park) Import(ctx context.Context, s Stored) (message.Parking, error) {
	if !p.config.Topology.HasEntry(s.Entry) {
		return 0, fmt.Errorf("import message %s: %w: entry %q is not configured", s.ID, ErrInvalid, s.Entry)
	}
	r := store.Stored{Key: string(s.Name), Record: store.Record(s.Record)}
	if r.ID() == "" || r.Entry() != s.Entry {
		return 0, fmt.Errorf("import message %s: %w: its name is another entry's", s.ID, ErrInvalid)
	}
	parking, err := p.store.Import(ctx, &r)
	if err != nil {
		return 0, fmt.Errorf("import message %s: %w", s.ID, err)
	}
	return parking, nil
}
