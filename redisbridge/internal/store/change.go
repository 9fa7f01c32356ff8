package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store/format"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store/server"
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
	Headers        amqp.Table // of the first message, if they were asked for and can be read
}

func changeOf(answer []any) (Change, error) {
	r := reply{rest: answer}
	c := Change{Outcome: Outcome(r.int()), At: InstantOf(r.int()), Due: InstantOf(r.int()), Messages: int(r.int()), Until: InstantOf(r.int())}
	if c.Outcome < Done || c.Outcome > Recorded {
		r.fail("outcome %d has no meaning", c.Outcome)
	}
	if len(r.rest) > 0 {
		m, _ := format.DecodeEnvelope([]byte(r.string()), "") // or the bridge says so
		c.Headers = m.Headers
	}
	return c, r.err
}

// Cancel cancels the messages of an entry with an ID. It returns the headers of the first
// one, too, if they are wanted.
func (s *Store) Cancel(ctx context.Context, entry, id string, headers bool) (Change, error) {
	tiers := s.config.Topology.Tiers()
	unknown := s.config.Tombstones + tiers[len(tiers)-1].TTL
	return s.change(ctx, entry, id, func(k format.ShardKeys, key string) (*redis.Script, []string, []any) {
		return s.scripts.Cancel, []string{k.Schedule, k.Claimed, k.Envelopes, k.Kept},
			append([]any{key, s.config.Tombstones.Milliseconds(), unknown.Milliseconds(), flag(headers)}, s.leads...)
	})
}

// Reschedule gives them another due time. w must be valid.
func (s *Store) Reschedule(ctx context.Context, entry, id string, w message.When, headers bool) (Change, error) {
	relative, ms := 0, int64(0)
	if delay, ok := w.Relative(); ok {
		relative, ms = 1, delay.Milliseconds()
	} else {
		instant, _ := w.Instant()
		ms = max(0, instant.UnixMilli())
	}
	return s.change(ctx, entry, id, func(k format.ShardKeys, key string) (*redis.Script, []string, []any) {
		return s.scripts.Reschedule, []string{k.Schedule, k.State, k.Claimed, k.Envelopes, k.Kept},
			append([]any{format.WakeChannel(s.config.Topology), k.Number, key, relative, ms, s.config.Tombstones.Milliseconds(), flag(headers)}, s.leads...)
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
func (s *Store) change(ctx context.Context, entry, id string, call func(_ format.ShardKeys, key string) (*redis.Script, []string, []any)) (Change, error) {
	if err := checkID(id); err != nil {
		return Change{}, err
	}
	if err := s.admit(ctx); err != nil {
		return Change{}, err
	}
	key := format.KeyOf(entry, id)
	var unreplicated error
	var answer []any
	err := s.onShard(ctx, key, func(shard *Shard, _ format.Slot) (err error) {
		script, keys, args := call(shard.keys, key)
		called, late := s.run(ctx, shard.keys, script, keys, args...)
		unreplicated = late
		answer, err = called.Slice()
		return err
	})
	if err != nil {
		return Change{}, server.Classify(err)
	}
	change, err := changeOf(answer)
	if err != nil {
		return Change{}, errors.Join(server.ErrUnconfirmed, err)
	}
	return change, unreplicated
}

// checkID rejects what cannot be a message's ID.
func checkID(id string) error {
	if id == "" || len(id) > wire.MaxIDBytes {
		return fmt.Errorf("%w: an ID of %d bytes; use 1 to %d", ErrInvalid, len(id), wire.MaxIDBytes)
	}
	return nil
}
