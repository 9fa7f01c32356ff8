package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/message"
)

// Outcome is what a change came to, as lua/cancel.lua and lua/reschedule.lua return it.
type Outcome int64

// The outcomes; redisbridge.Outcome says what they mean.
const (
	Done Outcome = iota + 1
	CancelledBefore
	WasDelivered
	Recorded
)

// A Change is what cancelling or rescheduling a message came to; see redisbridge.Change.
type Change struct {
	Outcome        Outcome
	At, Due, Until time.Time
	Messages       int
	Envelope       string // of the first message, if it was asked for
}

func changeOf(answer []any) (Change, error) {
	r := reply{rest: answer}
	c := Change{Outcome: Outcome(r.int()), At: InstantOf(r.int()), Due: InstantOf(r.int()), Messages: int(r.int()), Until: InstantOf(r.int())}
	if c.Outcome < Done || c.Outcome > Recorded {
		r.fail("outcome %d has no meaning", c.Outcome)
	}
	if len(r.rest) > 0 {
		c.Envelope = r.string()
	}
	return c, r.err
}

// Cancel cancels the messages of an entry with an ID. It returns the envelope, too, if
// that is wanted.
func (s *Store) Cancel(ctx context.Context, entry, id string, envelope bool) (Change, error) {
	tiers := s.config.Topology.Tiers()
	unknown := s.config.Tombstones + tiers[len(tiers)-1].TTL
	return s.change(ctx, entry, id, func(k shardKeys, key string) (*redis.Script, []string, []any) {
		return s.scripts.cancel, []string{k.schedule, k.claimed, k.envelopes, k.kept},
			append([]any{key, s.config.Tombstones.Milliseconds(), unknown.Milliseconds(), flag(envelope)}, s.leads...)
	})
}

// Reschedule gives them another due time. w must be valid.
func (s *Store) Reschedule(ctx context.Context, entry, id string, w message.When, envelope bool) (Change, error) {
	relative, ms := 0, int64(0)
	if delay, ok := w.Relative(); ok {
		relative, ms = 1, delay.Milliseconds()
	} else {
		instant, _ := w.Instant()
		ms = max(0, instant.UnixMilli())
	}
	return s.change(ctx, entry, id, func(k shardKeys, key string) (*redis.Script, []string, []any) {
		return s.scripts.reschedule, []string{k.schedule, k.state, k.claimed, k.envelopes, k.kept},
			append([]any{wakeChannel(s.config.Topology), k.number, key, relative, ms, s.config.Tombstones.Milliseconds(), flag(envelope)}, s.leads...)
	})
}

func flag(is bool) int {
	if is {
		return 1
	}
	return 0
}

// change runs a script that changes what is known of an ID, which call returns with what it
// takes.
func (s *Store) change(ctx context.Context, entry, id string, call func(_ shardKeys, key string) (*redis.Script, []string, []any)) (Change, error) {
	if err := checkID(id); err != nil {
		return Change{}, err
	}
	if err := s.Check(ctx); err != nil {
		return Change{}, err
	}
	key := keyOf(entry, id)
	shard, _ := locate(key, len(s.keys))
	script, keys, args := call(s.keys[shard], key)
	answer, err := script.Run(ctx, s.config.Client, keys, args...).Slice()
	if err != nil {
		return Change{}, Classify(err)
	}
	change, err := changeOf(answer)
	if err != nil {
		return Change{}, errors.Join(ErrUnconfirmed, err)
	}
	return change, nil
}

// checkID rejects what cannot be a message's ID.
func checkID(id string) error {
	if id == "" || len(id) > message.MaxIDBytes {
		return fmt.Errorf("%w: an ID of %d bytes; use 1 to %d", ErrInvalid, len(id), message.MaxIDBytes)
	}
	return nil
}
