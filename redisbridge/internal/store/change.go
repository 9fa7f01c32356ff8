package store

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
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
	if err := s.admit(ctx); err != nil {
		return Change{}, err
	}
	key := keyOf(entry, id)
	var unreplicated error
	var answer []any
	err := s.onShard(ctx, key, func(shard *Shard, _ slot) (err error) {
		script, keys, args := call(shard.keys, key)
		called, late := s.run(ctx, shard.keys, script, keys, args...)
		unreplicated = late
		answer, err = called.Slice()
		return err
	})
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
	if err := s.admit(ctx); err != nil {
		return message.Arrival{}, err
	}
	key := keyOf(m.Entry, m.ID)
	published, due := unixMS(m.Journey.Published), unixMS(m.Journey.Due)
	digest := contentAsSent(m)
	for {
		var answer []int64
		err := s.onShard(ctx, key, func(shard *Shard, _ slot) (err error) {
			k := shard.keys
			answer, err = s.scripts.arrive.Run(ctx, s.config.Client,
				[]string{k.claimed, k.envelopes, k.kept},
				key, published, due, m.Journey.Version,
				s.config.Remember.Milliseconds(), s.config.Tombstones.Milliseconds(), s.config.Window.Milliseconds(),
				string(m.Journey.Path), onItsWay(m).Milliseconds(), digest[:]).Int64Slice()
			return err
		})
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
	digest := contentAsSent(m)
	var parked bool
	var unreplicated error
	err := s.onShard(ctx, key, func(shard *Shard, slot slot) (err error) {
		k := shard.keys
		args := append([]any{
			wakeChannel(s.config.Topology), k.number, key, unixMS(m.Journey.Published), m.Journey.Version, digest[:], appendEnvelope(nil, m, m.ID), groupOf(m),
		}, s.leads...)
		called, late := s.run(ctx, k, s.scripts.repark, []string{k.schedule, k.state, k.slot(slot), k.envelopes, k.kept}, args...)
		unreplicated = late
		parked, err = called.Bool()
		return err
	})
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
	err = s.onShard(ctx, key, func(shard *Shard, _ slot) error {
		return s.scripts.handled.Run(ctx, s.config.Client, []string{shard.keys.envelopes, shard.keys.kept},
			key, unixMS(m.Journey.Published), url.QueryEscape(h.Queue), h.At.UnixMilli(), note, until.Add(s.config.Remember).UnixMilli()).Err()
	})
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
	if _, err := s.ReadLayout(ctx); err != nil {
		return err
	}
	shards, _ := s.Shards() // old ones first, whose groups stay until their messages have arrived in new ones
	for _, shard := range shards {
		for cursor := uint64(0); ; {
			fields, next, err := s.config.Client.HScan(ctx, shard.keys.group(entry, name), cursor, "", groupPage).Result()
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

// SweepGroups takes out of their groups, in all shards, messages that do not wait any more. In those from which
// messages move, groups stay as they are: what has left may not have arrived.
func (s *Store) SweepGroups(ctx context.Context) error {
	v := s.view.Load()
	shards := v.next
	if shards == nil {
		shards = v.shards
	}
	for _, shard := range shards {
		k := shard.keys
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

// Erased is what [Store.Erase] has come to.
type Erased struct {
	Messages []ErasedMessage
	Retries  int // of them, that waited to be tried again
	Now      time.Time
	Until    time.Time // until when the broker may have a copy, and a tombstone stays; zero where it has none
}

// ErasedMessage is what a message was that is erased.
type ErasedMessage struct {
	Was   ErasedState
	Due   time.Time
	Lane  time.Duration // its TTL, or 0
	Shard int
}

// ErasedState is what lua/erase.lua has found.
type ErasedState int64

// The states.
const (
	ErasedParked ErasedState = iota + 1
	ErasedPromoting
	ErasedWithBroker
	ErasedCancelled
	ErasedDelivered
	ErasedMoved
)

// Erase removes the messages of an entry with an ID, what is remembered of them, their retries, and their
// membership of groups.
func (s *Store) Erase(ctx context.Context, entry, id string) (Erased, error) {
	if err := checkID(id); err != nil {
		return Erased{}, err
	}
	if err := s.admit(ctx); err != nil {
		return Erased{}, err
	}
	all, err := s.eraseRetries(ctx, entry, id)
	if err != nil {
		return all, err
	}
	all.Retries = len(all.Messages)
	key := keyOf(entry, id)
	if err := s.eraseKey(ctx, key, strconv.FormatInt(unixMS(all.Until), 10), &all); err != nil {
		return all, err
	}
	shard, _ := s.view.Load().locate(key)
	return all, s.leaveGroups(ctx, shard.keys, key)
}

// eraseKey runs lua/erase.lua, and adds what that has found.
func (s *Store) eraseKey(ctx context.Context, key, mode string, all *Erased) error {
	tiers := s.config.Topology.Tiers()
	longest := tiers[len(tiers)-1].TTL
	var in *Shard
	var answer []any
	var unreplicated error
	err := s.onShard(ctx, key, func(shard *Shard, _ slot) (err error) {
		k := shard.keys
		called, late := s.run(ctx, k, s.scripts.erase, []string{k.schedule, k.claimed, k.envelopes, k.kept}, append([]any{
			key, s.config.Tombstones.Milliseconds(), (s.config.Tombstones + longest).Milliseconds(), longest.Milliseconds(), mode,
		}, s.leads...)...)
		in, unreplicated = shard, late
		answer, err = called.Slice()
		return err
	})
	if err != nil {
		return Classify(err)
	}
	r := reply{rest: answer}
	all.Now = InstantOf(r.int())
	if until := InstantOf(r.int()); until.After(all.Until) {
		all.Until = until
	}
	for len(r.rest) > 0 && r.err == nil {
		all.Messages = append(all.Messages, ErasedMessage{
			Was: ErasedState(r.int()), Due: InstantOf(r.int()), Lane: time.Duration(r.int()) * time.Millisecond, Shard: in.number,
		})
	}
	return errors.Join(r.err, unreplicated)
}

// eraseRetries removes what waits to be tried again. Their keys have parts that were made up, so they are looked
// for in all shards. A retry goes into no lane; it moves on from one of these sets to the next, and from an old shard
// by what is between them to a new one.
func (s *Store) eraseRetries(ctx context.Context, entry, id string) (all Erased, err error) {
	pattern := escapeGlob(retryKeys(entry, id)) + "*"
	shards, err := s.Current(ctx)
	if err != nil {
		return all, err
	}
	for _, shard := range shards {
		k := shard.keys
		var keys []string
		buckets, err := s.scan(ctx, []string{k.part("0")}, "*")
		if err != nil {
			return all, err
		}
		sets := make([]string, len(buckets))
		for i, bucket := range buckets {
			sets[i] = k.part("0") + ":" + bucket
		}
		for _, sets := range [][]string{sets, {k.claimed}, {k.kept}} {
			found, err := s.scan(ctx, sets, pattern)
			if err != nil {
				return all, err
			}
			keys = append(keys, found...)
		}
		between, err := s.config.Client.HKeys(ctx, k.moving).Result()
		if err != nil {
			return all, classifyRead(err)
		}
		for _, field := range between {
			if key, is := strings.CutPrefix(field, movingRecord); is && strings.HasPrefix(key, retryKeys(entry, id)) {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		for _, key := range slices.Compact(keys) {
			is, err := s.isRetryOf(ctx, key, entry, id)
			if err == nil && is {
				err = s.eraseKey(ctx, key, "retry", &all)
			}
			if err != nil {
				return all, err
			}
		}
	}
	return all, nil
}

// isRetryOf reports whether what is stored under a key is a message that has an ID of its own.
func (s *Store) isRetryOf(ctx context.Context, key, entry, id string) (bool, error) {
	found, err := s.lookKey(ctx, key)
	if err != nil {
		return false, err
	}
	for _, one := range found {
		stored := Stored{Key: one.key, Record: one.Record}
		if m, err := stored.Message(); one.key == key && err == nil && m.ID == id && m.Entry == entry {
			return true, nil // what cannot be read is no retry of it
		}
	}
	return false, nil
}

// leaveGroups takes the messages with a key out of their groups, now: otherwise a bridge does so later.
func (s *Store) leaveGroups(ctx context.Context, k shardKeys, key string) error {
	members, err := s.scan(ctx, []string{k.groups}, "*"+escapeGlob(key))
	if err != nil {
		return err
	}
	var soon []redis.Z // the sweep begins with the lowest score
	for _, member := range members {
		const head = 2 // bytes with the length of the group's name
		if len(member) < head {
			continue
		}
		name := int(binary.BigEndian.Uint16([]byte(member[:head])))
		if one := member[min(len(member), head+name):]; one == key || len(one) > digestLen && one[0] == keyOfOther && one[1+digestLen:] == key {
			soon = append(soon, redis.Z{Score: 0, Member: member})
		}
	}
	if len(soon) == 0 {
		return nil
	}
	if err := s.config.Client.ZAddXX(ctx, k.groups, soon...).Err(); err != nil {
		return Classify(err)
	}
	return Classify(s.scripts.sweep.Run(ctx, s.config.Client, []string{k.groups, k.envelopes, k.kept}, max(sweepPage, len(soon))).Err())
}

const (
	// scanPage is how many members of a set are looked at by one command, about.
	scanPage = 1000
	// scanSets is how many sets are looked at in one round trip.
	scanSets = 200
)

// scan returns the members of sorted sets of a shard that match a pattern.
func (s *Store) scan(ctx context.Context, sets []string, pattern string) (members []string, err error) {
	for page := range slices.Chunk(sets, scanSets) {
		cursors := map[string]uint64{}
		for _, set := range page {
			cursors[set] = 0
		}
		for len(cursors) > 0 {
			answers := map[string]*redis.ScanCmd{}
			_, err := s.config.Client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
				for set, cursor := range cursors {
					answers[set] = pipe.ZScan(ctx, set, cursor, pattern, scanPage)
				}
				return nil
			})
			if err != nil {
				return nil, classifyRead(err)
			}
			for set, answer := range answers {
				found, next := answer.Val()
				for i := 0; i < len(found); i += 2 { // each with its score
					members = append(members, found[i])
				}
				if cursors[set] = next; next == 0 {
					delete(cursors, set)
				}
			}
		}
	}
	return members, nil
}

// escapeGlob returns a pattern that matches text alone.
func escapeGlob(text string) string {
	return strings.NewReplacer(`\`, `\\`, `[`, `\[`, `]`, `\]`, `*`, `\*`, `?`, `\?`, `^`, `\^`, `-`, `\-`).Replace(text)
}
