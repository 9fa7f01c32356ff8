package redisbridge

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/topology"
)

// State says where a message is, as far as Redis knows.
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
	all, err := p.look(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("look up message %s: %w", id, err)
	}
	return all, nil
}

func (p *Park) look(ctx context.Context, id string) (all []MessageState, err error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	if err := p.check(ctx); err != nil {
		return nil, err
	}
	first := keyOf(p.entryName, id)
	shard, _ := locate(first, len(p.keys))
	k := p.keys[shard]
	answer, err := p.scripts.look.Run(ctx, p.config.Client, []string{k.claimed, k.kept, k.envelopes}, append([]any{first}, p.leads...)...).Slice()
	if err != nil {
		return nil, classify(err)
	}
	r := reply{rest: answer}
	now := r.int()
	for len(r.rest) > 0 && r.err == nil {
		key, stored, claimed, kept, at := r.string(), record(r.string()), r.string(), r.string(), r.int()
		if r.err != nil {
			break
		}
		if !stored.whole() {
			return nil, errors.New("its record is cut off")
		}
		e, err := p.found(shard, key, stored, now, claimed, kept, at)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	for i := range all {
		all[i].Messages = len(all)
	}
	return all, r.err
}

// found is what a record says, and its scores in what is claimed and kept. at is its instant
// of promotion, Unix ms, if it is parked.
func (p *Park) found(shard int, key string, stored record, now int64, claimed, kept string, at int64) (MessageState, error) {
	e := p.entry(shard, key, stored)
	e.Bytes = len(stored)
	if stored.state() != stateWaiting {
		return e, nil
	}
	switch {
	case kept != "" && stored.due() <= now:
		e.State = StateDue
	case kept != "":
		e.State = StateInLane
	case claimed != "":
		score, err := strconv.ParseFloat(claimed, 64)
		if err != nil {
			return MessageState{}, err
		}
		e.State, at = StatePromoting, int64(math.Floor(score))
	}
	p.promoted(&e, stored, at)
	if e.State == StateDue || e.State == StateInLane {
		e.PromoteAt = time.Time{}
	}
	e.Message, e.Unreadable = message.DecodeEnvelope(stored.envelope(), e.ID)
	return e, nil
}

// checkID rejects what cannot be a message's ID.
func checkID(id string) error {
	if id == "" || len(id) > message.MaxIDBytes {
		return fmt.Errorf("%w: an ID of %d bytes; use 1 to %d", ErrInvalid, len(id), message.MaxIDBytes)
	}
	return nil
}

// entry is what a record says by itself: where it waits, it is taken for parked.
func (p *Park) entry(shard int, key string, r record) MessageState {
	e := MessageState{
		ID: idOf(key), Shard: shard, Version: r.version(),
		Due: instantOf(r.due()), Published: instantOf(r.published()),
	}
	changed := instantOf(r.parkedAt())
	switch r.state() {
	case stateCancelled:
		e.State, e.Ended = StateCancelled, changed
	case stateDelivered:
		e.State, e.Ended = StateDelivered, changed
		e.Path, e.Handled = handlings(r.told())
	case stateMoved:
		e.State, e.Rescheduled = StateMoved, changed
	default:
		e.State = StateParked
		if !changed.Equal(e.Published) {
			e.Rescheduled = changed
		}
	}
	return e
}

// promoted fills in what follows from when a message is to be promoted.
func (p *Park) promoted(e *MessageState, r record, at int64) {
	e.PromoteAt = instantOf(at)
	e.Lane = time.Duration(r.lead(at, p.config.Topology.Leads())) * time.Millisecond
	e.Path = message.PathParkedReady
	if e.Lane > 0 {
		e.Path = message.PathLane(topology.TTLName(e.Lane))
	}
}
