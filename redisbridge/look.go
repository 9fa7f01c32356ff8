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

// An Entry is what Redis knows of a message. Instants are zero where they are unknown.
type Entry struct {
	// ID is the one that the message is parked under. If that is another than its
	// own, as for a second message of a foreign client with the same ID, Message has
	// its own.
	ID    string
	State State
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

// Look returns what Redis knows of an ID, and false where it knows nothing: the message
// may be in a tier or in the inbox, may have been delivered and forgotten, or may never
// have been. It changes nothing.
func (p *Park) Look(ctx context.Context, id string) (Entry, bool, error) {
	e, known, err := p.look(ctx, id)
	if err != nil {
		return Entry{}, false, fmt.Errorf("look up message %s: %w", id, err)
	}
	return e, known, nil
}

func (p *Park) look(ctx context.Context, id string) (e Entry, known bool, err error) {
	if err := checkID(id); err != nil {
		return Entry{}, false, err
	}
	if err := p.check(ctx); err != nil {
		return Entry{}, false, err
	}
	shard, slot := locate(id, len(p.keys))
	k := p.keys[shard]
	answer, err := p.scripts.look.Run(ctx, p.config.Client, []string{k.slot(slot), k.claimed, k.kept, k.envelopes}, id).Slice()
	if err != nil {
		return Entry{}, false, classify(err)
	}
	r := reply{rest: answer}
	now, stored, claimed, kept := r.int(), record(r.string()), r.string(), r.string()
	switch {
	case r.err != nil:
		return Entry{}, false, r.err
	case stored == "":
		return Entry{}, false, nil
	case !stored.whole():
		return Entry{}, false, errors.New("its record is cut off")
	}
	e = p.entry(shard, id, stored)
	e.Bytes = len(stored)
	switch {
	case stored.state() != stateWaiting:
		return e, true, nil
	case kept != "" && stored.due() <= now:
		e.State, e.PromoteAt = StateDue, time.Time{}
	case kept != "":
		e.State, e.PromoteAt = StateInLane, time.Time{}
	case claimed != "":
		score, err := strconv.ParseFloat(claimed, 64)
		if err != nil {
			return Entry{}, false, err
		}
		e.State = StatePromoting
		p.promoted(&e, stored, int64(math.Floor(score)))
	}
	e.Message, e.Unreadable = message.DecodeEnvelope(stored.envelope(), id)
	return e, true, nil
}

// checkID rejects what can be nobody's ID.
func checkID(id string) error {
	if id == "" || len(id) > message.MaxIDBytes {
		return fmt.Errorf("%w: an ID of %d bytes; use 1 to %d", ErrInvalid, len(id), message.MaxIDBytes)
	}
	return nil
}

// entry is what a record says by itself: where it waits, it is taken for parked, in its
// own place.
func (p *Park) entry(shard int, id string, r record) Entry {
	e := Entry{
		ID: id, Shard: shard, Version: r.version(),
		Due: instantOf(r.due()), Published: instantOf(r.published()),
	}
	changed := instantOf(r.parkedAt())
	switch r.state() {
	case stateCancelled:
		e.State, e.Ended = StateCancelled, changed
	case stateDelivered:
		e.State, e.Ended = StateDelivered, changed
		e.Path, e.Handled = handlings(string(r.envelope()))
	case stateMoved:
		e.State, e.Rescheduled = StateMoved, changed
	default:
		e.State = StateParked
		if !changed.Equal(e.Published) {
			e.Rescheduled = changed
		}
		at, _ := p.place(r.due(), r.parkedAt(), r.direct())
		p.promoted(&e, r, at)
	}
	return e
}

// promoted fills in what follows from when a message is to be promoted.
func (p *Park) promoted(e *Entry, r record, at int64) {
	e.PromoteAt = instantOf(at)
	e.Lane = time.Duration(r.lead(at, p.config.Topology.Leads())) * time.Millisecond
	e.Path = message.PathParkedReady
	if e.Lane > 0 {
		e.Path = message.PathLane(topology.TTLName(e.Lane))
	}
}
