package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store/format"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store/server"
)

// Verify is redisbridge.Park.Verify.
func (s *Store) Verify(ctx context.Context) (faults, miscounts []string, err error) {
	if err := s.atRest(ctx); err != nil {
		return nil, nil, err
	}
	for _, shard := range s.view.Load().shards {
		one, err := s.verifyShard(ctx, shard.keys)
		if err != nil {
			return nil, nil, fmt.Errorf("verify shard %s: %w", shard.Name(), server.ClassifyRead(err))
		}
		faults, miscounts = append(faults, one.faults...), append(miscounts, one.miscounts...)
	}
	return faults, miscounts, nil
}

// verification is what one shard has.
type verification struct {
	records   map[string]Record
	kept      map[string]bool
	scheduled map[string]bool // or claimed
	faults    []string
	miscounts []string
}

func (v *verification) fault(format string, args ...any) {
	v.faults = append(v.faults, fmt.Sprintf(format, args...))
}

// Slots of all shards are read this many at a time, or fewer where they have much in them.
const (
	exportSlots = 256
	exportBytes = 4 << 20
)

// Export calls visit for the record of each message that waits or was cancelled, shard after shard, until
// that returns an error. A record never changes its place, so that each one that is there throughout is met,
// and once. progress is told after each step how much of the whole was read.
func (s *Store) Export(ctx context.Context, visit func(*Stored) error, progress func(done float64)) error {
	if err := s.Check(ctx); err != nil {
		return err
	}
	if err := s.atRest(ctx); err != nil {
		return err
	}
	v := s.view.Load()
	for shard := range v.shards {
		k := v.shards[shard].keys
		for first, step := 0, 1; first < format.SlotsPerShard; {
			last := min(first+step, format.SlotsPerShard)
			records, bytes, err := s.readSlots(ctx, k, first, last)
			if err != nil {
				return fmt.Errorf("shard %d: %w", shard, server.ClassifyRead(err))
			}
			for i := range records {
				if err := visit(&records[i]); err != nil {
					return err
				}
			}
			if first = last; bytes > exportBytes {
				step = max(1, step/2)
			} else {
				step = min(exportSlots, 2*step)
			}
			if s.view.Load() != v {
				return fmt.Errorf("%w: it began meanwhile", ErrResharding)
			}
			progress((float64(shard) + float64(first)/format.SlotsPerShard) / float64(len(v.shards)))
		}
	}
	return nil
}

// readSlots reads what some slots have of messages that wait or were cancelled.
func (s *Store) readSlots(ctx context.Context, k format.ShardKeys, first, last int) (records []Stored, bytes int, err error) {
	answers := make([]*redis.MapStringStringCmd, 0, last-first)
	if _, err := s.config.Client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for n := first; n < last; n++ {
			answers = append(answers, pipe.HGetAll(ctx, k.Slot(format.SlotNumber(n))))
		}
		return nil
	}); err != nil {
		return nil, 0, err
	}
	for _, answer := range answers {
		for key, r := range answer.Val() {
			bytes += len(r)
			if one := (Stored{Key: key, Record: Record(r)}); one.Record.Whole() && (one.Record.State() == Waiting || one.Record.State() == Cancelled) {
				records = append(records, one)
			}
		}
	}
	if len(records) == 0 {
		return nil, bytes, nil
	}
	us, err := s.scripts.Clock.RunRO(ctx, s.config.Client, []string{k.State}).Int64()
	if err != nil {
		return nil, bytes, err
	}
	kept := make([]*redis.FloatCmd, len(records))
	_, _ = s.config.Client.Pipelined(ctx, func(pipe redis.Pipeliner) error { // each command has its own error
		for i := range records {
			kept[i] = pipe.ZScore(ctx, k.Kept, records[i].Key)
		}
		return nil
	})
	all := records[:0]
	for i, one := range records {
		err := kept[i].Err()
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, bytes, err
		}
		one.InLane = err == nil && one.Record.State() == Waiting
		if one.InLane && one.Record.Due() <= us/1000 {
			continue // it has come
		}
		all = append(all, one)
	}
	return all, bytes, nil
}

// Import stores a record that [Store.Export] has returned, of this or of another Redis, prefix or number of shards,
// unless the message waits there. One with its ID and other content is stored beside the message that has it. A cancelled ID is
// cancelled, and an overdue message is due a second later.
func (s *Store) Import(ctx context.Context, r *Stored) (message.Parking, error) {
	if s.Layout().Next > 0 {
		if err := s.atRest(ctx); err != nil {
			return 0, err
		}
	}
	return s.implantOne(ctx, r)
}

// implantOne is Import, also while messages move to other shards.
func (s *Store) implantOne(ctx context.Context, r *Stored) (message.Parking, error) {
	m, err := r.Message()
	switch {
	case !r.Record.Whole() || err != nil && r.Record.State() == Waiting:
		return 0, fmt.Errorf("%w: %w", ErrInvalid, err)
	case r.Record.State() == Cancelled:
		_, err := s.Cancel(ctx, r.Entry(), r.ID(), false)
		return message.CancelledBefore, err
	case r.Record.State() != Waiting:
		return 0, fmt.Errorf("%w: it neither waits nor was cancelled", ErrInvalid)
	}
	when := message.At(InstantOf(r.Record.Due()))
	key := r.Key
	if key[0] == format.KeyOfOther { // it gets such a key where the first message is there
		key = format.KeyOf(r.Entry(), r.ID())
	}
	begin := Beginning{
		As: key, Version: r.Record.Version(), Direct: r.Record.Direct(), Published: InstantOf(r.Record.Published()),
		Content: r.Record[format.DigestAt:format.RecordHeader],
	}
	ticket, err := s.Park(ctx, &m, when, begin)
	if err == nil && ticket.Parking == message.Overdue {
		ticket, err = s.Park(ctx, &m, message.After(time.Second), begin)
	}
	return ticket.Parking, err
}

func (s *Store) verifyShard(ctx context.Context, k format.ShardKeys) (*verification, error) {
	v := &verification{records: map[string]Record{}, kept: map[string]bool{}, scheduled: map[string]bool{}}
	if err := v.readRecords(ctx, s.config.Client, k); err != nil {
		return nil, err
	}
	if err := v.readSchedule(ctx, s.config.Client, k); err != nil {
		return nil, err
	}
	for set, into := range map[string]map[string]bool{k.Kept: v.kept, k.Claimed: v.scheduled} {
		keys, err := s.config.Client.ZRange(ctx, set, 0, -1).Result()
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			into[key] = true
		}
	}
	for key := range v.kept {
		if _, there := v.records[key]; !there {
			v.fault("message %q is kept without a record: the next one with that ID would be forgotten", format.IDOf(key))
		}
	}
	for key, r := range v.records {
		switch {
		case v.kept[key]: // done with, even if it is cut off
		case !r.Whole():
			v.fault("message %q: its record is cut off", format.IDOf(key))
		case (r.State() == Waiting || r.Unsettled()) && !v.scheduled[key]:
			v.fault("message %q is to be promoted, but is neither scheduled nor claimed nor kept: it would never be delivered", format.IDOf(key))
		case r.State() != Waiting && !r.Unsettled():
			v.fault("message %q is no longer waiting and not kept: its record would never go", format.IDOf(key))
		}
	}
	return v, v.weigh(ctx, s.config.Client, k)
}

// weigh compares what is said to be stored of each entry with what is.
func (v *verification) weigh(ctx context.Context, client redis.UniversalClient, k format.ShardKeys) error {
	said, err := client.HGetAll(ctx, k.Usage).Result()
	if err != nil {
		return err
	}
	is := map[string]int64{}
	for key, r := range v.records {
		is["bytes:"+format.EntryOf(key)] += int64(len(key) + len(r))
		if r = r.Mended(); r.State() == Waiting || r.Unsettled() {
			is["messages:"+format.EntryOf(key)]++
		}
	}
	for field := range said {
		is[field] += 0
	}
	for field, n := range is {
		if said[field] != strconv.FormatInt(n, 10) {
			v.miscounts = append(v.miscounts, fmt.Sprintf("%s: %s is %d, and is said to be %q", k.Usage, field, n, said[field]))
		}
	}
	return nil
}

func (v *verification) readRecords(ctx context.Context, client redis.UniversalClient, k format.ShardKeys) error {
	var mu sync.Mutex
	read := func(ctx context.Context, node redis.Cmdable) error {
		for cursor := uint64(0); ; {
			keys, next, err := node.Scan(ctx, cursor, strings.NewReplacer("[", `\[`, "*", `\*`, "?", `\?`).Replace(k.Envelopes)+":*", 1000).Result()
			if err != nil {
				return err
			}
			for _, key := range keys {
				stored, err := client.HGetAll(ctx, key).Result()
				if err != nil {
					return err
				}
				mu.Lock()
				for id, r := range stored {
					if key != k.Envelopes+":others" {
						v.records[id] = Record(r)
					}
				}
				mu.Unlock()
			}
			if cursor = next; cursor == 0 {
				return nil
			}
		}
	}
	if cluster, ok := client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return read(ctx, node) })
	}
	return read(ctx, client)
}

func (v *verification) readSchedule(ctx context.Context, client redis.UniversalClient, k format.ShardKeys) error {
	parts, err := client.SMembers(ctx, k.Schedule).Result()
	if err != nil {
		return err
	}
	counts, err := client.HGetAll(ctx, k.Counts()).Result()
	if err != nil {
		return err
	}
	for _, part := range parts {
		buckets, err := client.ZRange(ctx, k.Part(part), 0, -1).Result()
		if err != nil {
			return err
		}
		n := 0
		for _, bucket := range buckets {
			number, err := strconv.ParseInt(bucket, 10, 64)
			if err != nil {
				return err
			}
			entries, err := client.ZRangeWithScores(ctx, k.Bucket(part, number), 0, -1).Result()
			if err != nil {
				return err
			}
			n += len(entries)
			for _, e := range entries {
				key, _ := e.Member.(string)
				v.entry(part, number*format.BucketMS+int64(math.Floor(e.Score)), key)
			}
		}
		if counts[part] != strconv.Itoa(n) {
			v.miscounts = append(v.miscounts, fmt.Sprintf("part %s of the schedule has %d entries, and is said to have %q", part, n, counts[part]))
		}
	}
	return nil
}

// entry takes an entry of the schedule for that of a message, unless a claim would skip it.
func (v *verification) entry(part string, at int64, key string) {
	r, there := v.records[key]
	if lead, err := strconv.ParseInt(part, 10, 64); there && err == nil && r.Whole() && (lead == 0 || (r.Due()-lead)/format.BucketMS == at/format.BucketMS) {
		v.scheduled[key] = true
	}
}
