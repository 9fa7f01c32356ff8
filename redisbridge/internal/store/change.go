package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/wire"
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
	Headers        amqp.Table // of the first message, if they were asked for and can be read
}

func changeOf(answer []any) (Change, error) {
	r := reply{rest: answer}
	c := Change{Outcome: Outcome(r.int()), At: InstantOf(r.int()), Due: InstantOf(r.int()), Messages: int(r.int()), Until: InstantOf(r.int())}
	if c.Outcome < Done || c.Outcome > Recorded {
		r.fail("outcome %d has no meaning", c.Outcome)
	}
	if len(r.rest) > 0 {
		m, _ := decodeEnvelope([]byte(r.string()), "") // or the bridge says so
		c.Headers = m.Headers
	}
	return c, r.err
}

// Cancel cancels the messages of an entry with an ID. It returns the headers of the first
// one, too, if they are wanted.
func (s *Store) Cancel(ctx context.Context, entry, id string, headers bool) (Change, error) {
	tiers := s.config.Topology.Tiers()
	unknown := s.config.Tombstones + tiers[len(tiers)-1].TTL
	return s.change(ctx, entry, id, func(k shardKeys, key string) (*redis.Script, []string, []any) {
		return s.scripts.cancel, []string{k.schedule, k.claimed, k.envelopes, k.kept},
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
	return s.change(ctx, entry, id, func(k shardKeys, key string) (*redis.Script, []string, []any) {
		return s.scripts.reschedule, []string{k.schedule, k.state, k.claimed, k.envelopes, k.kept},
			append([]any{wakeChannel(s.config.Topology), k.number, key, relative, ms, s.config.Tombstones.Milliseconds(), flag(headers)}, s.leads...)
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
	called, unreplicated := s.run(ctx, s.keys[shard], script, keys, args...)
	answer, err := called.Slice()
	if err != nil {
		return Change{}, Classify(err)
	}
	change, err := changeOf(answer)
	if err != nil {
		return Change{}, errors.Join(ErrUnconfirmed, err)
	}
	return change, unreplicated
}

// checkID rejects what cannot be a message's ID.
func checkID(id string) error {
	if id == "" || len(id) > message.MaxIDBytes {
		return fmt.Errorf("%w: an ID of %d bytes; use 1 to %d", ErrInvalid, len(id), message.MaxIDBytes)
	}
	return nil
}

// Answers of lua/arrive.lua.
const (
	answerDeliver     = 1
	answerCancelled   = 2
	answerRescheduled = 3
	answerParkAgain   = 4
)

// Arrive is redisbridge.Park.Arrive.
func (s *Store) Arrive(ctx context.Context, m *message.Message) (message.Arrival, error) {
	if m.ID == "" { // it cannot have been cancelled
		return message.Arrival{Fate: message.Deliver}, nil
	}
	if err := s.Check(ctx); err != nil {
		return message.Arrival{}, err
	}
	key := keyOf(m.Entry, m.ID)
	shard, _ := locate(key, len(s.keys))
	k := s.keys[shard]
	published, due := unixMS(m.Journey.Published), unixMS(m.Journey.Due)
	digest := contentAsSent(m)
	for {
		answer, err := s.scripts.arrive.Run(ctx, s.config.Client,
			[]string{k.claimed, k.envelopes, k.kept},
			key, published, due, m.Journey.Version,
			s.config.Remember.Milliseconds(), s.config.Tombstones.Milliseconds(), s.config.Window.Milliseconds(),
			string(m.Journey.Path), onItsWay(m).Milliseconds(), digest[:]).Int64Slice()
		switch {
		case err != nil:
			return message.Arrival{}, Classify(err)
		case len(answer) == 1 && answer[0] == answerDeliver:
			return message.Arrival{Fate: message.Deliver}, nil
		case len(answer) == 2 && answer[0] == answerCancelled:
			return message.Arrival{Fate: message.DropCancelled, At: InstantOf(answer[1])}, nil
		case len(answer) == 2 && answer[0] == answerRescheduled:
			return message.Arrival{Fate: message.DropRescheduled, At: InstantOf(answer[1])}, nil
		case len(answer) != 2 || answer[0] != answerParkAgain:
			return message.Arrival{}, errors.Join(ErrUnconfirmed, fmt.Errorf("the answer %v of a script has no meaning", answer))
		}
		parked, err := s.repark(ctx, m)
		switch {
		case err != nil:
			return message.Arrival{}, err
		case parked:
			return message.Arrival{Fate: message.DropRescheduled, At: InstantOf(answer[1])}, nil
		}
		if ctx.Err() != nil { // it was changed meanwhile: ask again
			return message.Arrival{}, ctx.Err()
		}
	}
}

// onItsWay returns for how long a message that has come has been on its way, at least: for as
// long as its delay, by what it says.
func onItsWay(m *message.Message) time.Duration {
	if j := &m.Journey; !j.Published.IsZero() && !j.Due.IsZero() {
		return max(0, j.Due.Sub(j.Published))
	}
	when, err := message.WhenFromHeaders(m.Headers, time.Now())
	if delay, relative := when.Relative(); err == nil && relative {
		return delay
	}
	return 0
}

// repark parks a message again that was rescheduled while Redis did not have it. It returns
// false where it is not to be parked (any more): it was parked, cancelled or handled
// meanwhile, or this is another message with its ID.
func (s *Store) repark(ctx context.Context, m *message.Message) (bool, error) {
	key := keyOf(m.Entry, m.ID)
	shard, slot := locate(key, len(s.keys))
	k := s.keys[shard]
	digest := contentAsSent(m)
	args := append([]any{
		wakeChannel(s.config.Topology), k.number, key, unixMS(m.Journey.Published), m.Journey.Version, digest[:], appendEnvelope(nil, m, m.ID), groupOf(m),
	}, s.leads...)
	called, unreplicated := s.run(ctx, k, s.scripts.repark, []string{k.schedule, k.state, k.slot(slot), k.envelopes, k.kept}, args...)
	parked, err := called.Bool()
	return parked, errors.Join(Classify(err), unreplicated)
}

// maxLines is how many lines of a message's history are noted down for each queue.
const maxLines = 5

// Handled is redisbridge.Park.Handled.
func (s *Store) Handled(ctx context.Context, m *message.Message, h message.Handling) error {
	if m.ID == "" {
		return nil
	}
	key := keyOf(m.Entry, m.ID)
	shard, _ := locate(key, len(s.keys))
	k := s.keys[shard]
	h.At, h.RetryAt = h.At.UTC().Truncate(time.Millisecond), h.RetryAt.UTC().Truncate(time.Millisecond)
	h.History = h.History[max(0, len(h.History)-maxLines):]
	note, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("note down the handling of message %s: %w", m.ID, err)
	}
	until := h.At
	if h.RetryAt.After(until) {
		until = h.RetryAt
	}
	err = s.scripts.handled.Run(ctx, s.config.Client, []string{k.envelopes, k.kept},
		key, unixMS(m.Journey.Published), url.QueryEscape(h.Queue), h.At.UnixMilli(), note, until.Add(s.config.Remember).UnixMilli()).Err()
	if err != nil {
		return fmt.Errorf("note down the handling of message %s: %w", m.ID, Classify(err))
	}
	return nil
}

// Handlings returns what is noted down behind the head of a delivered message's record:
// its path, and a line for each queue, the last one first.
func (r Record) Handlings() (path message.Path, all []message.Handling) {
	for line := range strings.Lines(r.told()) {
		queue, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if queue == "" {
			path = message.Path(rest)
			continue
		}
		_, note, _ := strings.Cut(rest, "\t")
		var h message.Handling
		if json.Unmarshal([]byte(note), &h) == nil { // another release may write something else
			all = append(all, h)
		}
	}
	return path, all
}

const (
	// groupPage is how many messages of a group are read at a time, about.
	groupPage = 500
	// sweepPage is how many messages one script looks at, so that it holds up nobody for long.
	sweepPage = 500
)

// groupOf returns the group of a message within its entry, as the index has it, or "".
func groupOf(m *message.Message) string {
	name, err := wire.Group(m.Headers)
	if err != nil || name == "" {
		return "" // who takes the message in says what is wrong
	}
	return keyOf(m.Entry, name)
}

// Group calls yield for the ID of each message of an entry that was parked with a group and that
// Redis still knows, until it returns false. An ID may come twice while others enter the group.
func (s *Store) Group(ctx context.Context, entry, name string, yield func(id string) bool) error {
	if err := checkGroup(name); err != nil {
		return err
	}
	if err := s.Check(ctx); err != nil {
		return err
	}
	for _, k := range s.keys {
		for cursor := uint64(0); ; {
			fields, next, err := s.config.Client.HScan(ctx, k.group(entry, name), cursor, "", groupPage).Result()
			if err != nil {
				return fmt.Errorf("read group %q: %w", name, classifyRead(err))
			}
			for i := 0; i+1 < len(fields); i += 2 {
				id := idOf(fields[i])
				is, err := s.isMember(ctx, entry, id, fields[i], fields[i+1])
				if err != nil {
					return err
				}
				if is && !yield(id) {
					return nil
				}
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
	}
	return nil
}

// isMember reports whether a message is still one of a group: whether its record has the content with
// which it entered, since another message may have its key by now; and if it has left, whether there is
// no other message with its ID, which may be in no group.
func (s *Store) isMember(ctx context.Context, entry, id, key, digest string) (bool, error) {
	found, err := s.Look(ctx, entry, id)
	if err != nil {
		return false, err
	}
	for _, f := range found {
		if f.key == key && f.digest() == digest {
			waits := f.In == Scheduled || f.In != Anywhere && f.Due() > f.Now
			return waits || len(found) == 1, nil
		}
	}
	return false, nil
}

func checkGroup(name string) error {
	if name == "" || len(name) > wire.MaxGroupBytes {
		return fmt.Errorf("%w: a group of %d bytes; use 1 to %d", ErrInvalid, len(name), wire.MaxGroupBytes)
	}
	return nil
}

// SweepGroups takes out of their groups, in all shards, messages that do not wait any more.
func (s *Store) SweepGroups(ctx context.Context) error {
	for _, k := range s.keys {
		for {
			n, err := s.scripts.sweep.Run(ctx, s.config.Client, []string{k.groups, k.envelopes, k.kept}, sweepPage).Int()
			if err != nil {
				return Classify(err)
			}
			if n < sweepPage {
				break
			}
		}
	}
	return nil
}

func (r Record) digest() string { return string(r[digestAt:recordHeader]) }
