package store

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store/format"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store/server"
)

// Answers of lua/claim.lua.
const (
	AnswerOwned = 1 // the shard is the bridge's, with what was claimed
	AnswerHeld  = 2 // another one has the lease
	AnswerIdle  = 3 // the shard is not for this bridge while it is not late
	AnswerMoved = 4 // all that the shard had is in shards of the next generation
)

// A Claim is what a bridge asks a shard for.
type Claim struct {
	Bridge    string // its ID
	Preferred bool   // the shard is meant to be its own
	Lease     time.Duration
	// Grace is how late a shard may be before a bridge takes it that is not meant to own it.
	Grace time.Duration
	Turn  int64 // of the last answer; 0 if there is none, -1 to have what was claimed returned
	Room  int   // most messages
	// Step is how far, of those that are late to be promoted and not overdue, it goes beyond
	// the earliest, in time of promotion.
	Step time.Duration
}

// Claimed is the answer.
type Claimed struct {
	Status   int64
	Now      int64 // Redis' clock, Unix ms
	Next     int64 // next promotion, or the end of another's lease; -1 for never
	Turn     int64
	Asked    bool  // another bridge, which is meant to own the shard, asks for it
	InFlight int64 // messages claimed by this bridge and not yet settled, as Redis counts
	Held     bool  // there is more that is late
	Expired  bool  // the last owner's lease ran out while it had work
	Messages []*Parked
	Room     int       // as asked for
	Since    time.Time // when the lease began, or earlier
}

// Parked is one message that was claimed.
type Parked struct {
	Record
	ID        string
	PromoteAt int64 // Unix ms
	key       string
}

// Key tells the message from all others, also from those with its ID.
func (p *Parked) Key() string { return p.key }

// promoted says which message it is that the broker has, as lua/settle.lua reads it.
func (p *Parked) promoted(lead int64) []byte {
	b := make([]byte, format.DigestAt+2*format.PublishedLen, 40)
	copy(b, p.Record[:format.DigestAt])
	format.Put48(b[format.DigestAt:], p.Published())
	format.Put48(b[format.DigestAt+format.PublishedLen:], p.PromoteAt)
	return strconv.AppendInt(b, lead, 10)
}

// claimBytes bounds what a claim returns after its first message.
const claimBytes = 8 << 20

// Claim renews the lease of a shard, or takes it, and claims messages that are to be
// promoted.
func (s *Store) Claim(ctx context.Context, shard *Shard, c Claim) (Claimed, error) {
	role := "standby"
	if c.Preferred {
		role = "preferred"
	}
	asked, k, clock := time.Now(), shard.keys, shard.clock
	args := []any{c.Bridge, role, c.Lease.Milliseconds(), c.Grace.Milliseconds(), c.Turn, c.Room, claimBytes, c.Step.Milliseconds()}
	for _, lead := range s.config.Topology.Leads() {
		args = append(args, lead.Milliseconds())
	}
	answer, err := s.scripts.Claim.Run(ctx, s.config.Client, []string{k.Schedule, k.State, k.Claimed, k.Envelopes, k.Kept}, args...).Slice()
	heard := time.Now()
	if err != nil {
		clock.Forget()
		return Claimed{}, fmt.Errorf("claim from shard %s: %w", shard.Name(), server.Classify(err))
	}
	r := reply{rest: answer}
	claimed := Claimed{Status: r.int(), Room: c.Room, Since: asked}
	us := r.int()
	claimed.Now, claimed.Next = us/1000, -1
	if claimed.Status != AnswerMoved {
		claimed.Next = r.int()
	}
	clock.Learn(asked, heard, us)
	if claimed.Status == AnswerOwned {
		claimed.Turn, claimed.Asked, claimed.InFlight, claimed.Held, claimed.Expired = r.int(), r.int() == 1, r.int(), r.int() == 1, r.int() == 1
		for len(r.rest) > 0 && r.err == nil {
			p := &Parked{key: r.string(), PromoteAt: r.int(), Record: Record(r.string())}
			p.ID, p.Record = format.IDOf(p.key), p.Mended()
			claimed.Messages = append(claimed.Messages, p)
		}
	}
	return claimed, r.err
}

// Settle notes down that the broker has messages.
func (s *Store) Settle(ctx context.Context, shard *Shard, done []*Parked) error {
	k, leads := shard.keys, s.config.Topology.Leads()
	args := append(make([]any, 0, 2+2*len(done)), s.config.Window.Milliseconds(), s.config.Tombstones.Milliseconds())
	for _, p := range done {
		args = append(args, p.key, p.promoted(p.Lead(p.PromoteAt, leads)))
	}
	return server.Classify(s.scripts.Settle.Run(ctx, s.config.Client, []string{k.Schedule, k.Claimed, k.Envelopes, k.Kept, k.State}, args...).Err())
}

// Postpone puts messages that a bridge has claimed back into the schedule, to be promoted at
// their PromoteAt.
func (s *Store) Postpone(ctx context.Context, shard *Shard, bridge string, back []*Parked) error {
	k, leads := shard.keys, s.config.Topology.Leads()
	args := append(make([]any, 0, 1+4*len(back)), bridge)
	for _, p := range back {
		args = append(args, p.key, p.Version(), p.PromoteAt, p.Lead(p.PromoteAt, leads))
	}
	return server.Classify(s.scripts.Postpone.Run(ctx, s.config.Client, []string{k.Schedule, k.State, k.Claimed, k.Envelopes}, args...).Err())
}

// Yield gives a shard up that is a bridge's.
func (s *Store) Yield(ctx context.Context, shard *Shard, bridge string) error {
	k := shard.keys
	return server.Classify(s.scripts.Yield.Run(ctx, s.config.Client, []string{k.State}, bridge, format.WakeChannel(s.config.Topology), k.Number).Err())
}

// Message reads what the record has of the message. The error wraps wire.ErrEnvelope.
func (p *Parked) Message() (message.Message, error) { return format.DecodeEnvelope(p.Envelope(), p.ID) }
