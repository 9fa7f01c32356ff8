package store

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/redisbridge/internal/store/format"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store/server"
)

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
	key := format.KeyOf(entry, id)
	if err := s.eraseKey(ctx, key, strconv.FormatInt(format.UnixMS(all.Until), 10), &all); err != nil {
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
	err := s.onShard(ctx, key, func(shard *Shard, _ format.Slot) (err error) {
		k := shard.keys
		called, late := s.run(ctx, k, s.scripts.Erase, []string{k.Schedule, k.Claimed, k.Envelopes, k.Kept}, append([]any{
			key, s.config.Tombstones.Milliseconds(), (s.config.Tombstones + longest).Milliseconds(), longest.Milliseconds(), mode,
		}, s.leads...)...)
		in, unreplicated = shard, late
		answer, err = called.Slice()
		return err
	})
	if err != nil {
		return server.Classify(err)
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
		buckets, err := s.scan(ctx, []string{k.Part("0")}, "*")
		if err != nil {
			return all, err
		}
		sets := make([]string, len(buckets))
		for i, bucket := range buckets {
			sets[i] = k.Part("0") + ":" + bucket
		}
		for _, sets := range [][]string{sets, {k.Claimed}, {k.Kept}} {
			found, err := s.scan(ctx, sets, pattern)
			if err != nil {
				return all, err
			}
			keys = append(keys, found...)
		}
		between, err := s.config.Client.HKeys(ctx, k.Moving).Result()
		if err != nil {
			return all, server.ClassifyRead(err)
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
func (s *Store) leaveGroups(ctx context.Context, k format.ShardKeys, key string) error {
	members, err := s.scan(ctx, []string{k.Groups}, "*"+escapeGlob(key))
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
		if one := member[min(len(member), head+name):]; one == key || len(one) > format.DigestLen && one[0] == format.KeyOfOther && one[1+format.DigestLen:] == key {
			soon = append(soon, redis.Z{Score: 0, Member: member})
		}
	}
	if len(soon) == 0 {
		return nil
	}
	if err := s.config.Client.ZAddXX(ctx, k.Groups, soon...).Err(); err != nil {
		return server.Classify(err)
	}
	return server.Classify(s.scripts.Sweep.Run(ctx, s.config.Client, []string{k.Groups, k.Envelopes, k.Kept}, max(sweepPage, len(soon))).Err())
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
				return nil, server.ClassifyRead(err)
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
