package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store/format"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store/server"
)

// Where is the place in Redis of a message that waits.
type Where int

// The places.
const (
	Anywhere Where = iota
	// Scheduled: it waits for its promotion.
	Scheduled
	// InFlight: a bridge has claimed it.
	InFlight
	// Kept: the broker has it.
	Kept
)

// Found is what Redis has of a message.
type Found struct {
	Record
	ID    string
	Shard int
	Bytes int // of the record, which may be a part of it
	// In is where it waits, if it does, and PromoteAt when it is, or was, to be promoted,
	// Unix ms.
	In        Where
	PromoteAt int64
	Now       int64 // Redis' clock, Unix ms, where one message was looked up
	key       string
}

// Look returns what Redis has of the messages of an entry with an ID.
func (s *Store) Look(ctx context.Context, entry, id string) (all []Found, err error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	if err := s.Check(ctx); err != nil {
		return nil, err
	}
	return s.lookKey(ctx, format.KeyOf(entry, id))
}

// lookKey is Look for the key of the first message.
func (s *Store) lookKey(ctx context.Context, first string) (all []Found, err error) {
	var in *Shard
	var answer []any
	err = s.onShard(ctx, first, func(shard *Shard, _ format.Slot) (err error) {
		k := shard.keys
		in = shard
		answer, err = s.scripts.Look.RunRO(ctx, s.config.Client, []string{k.Claimed, k.Kept, k.Envelopes}, append([]any{first}, s.leads...)...).Slice()
		return err
	})
	if err != nil {
		return nil, server.ClassifyRead(err)
	}
	r := reply{rest: answer}
	now := r.int()
	for len(r.rest) > 0 && r.err == nil {
		key, stored, claimed, kept, at := r.string(), Record(r.string()), r.string(), r.string(), r.int()
		if r.err != nil {
			break
		}
		if !stored.Whole() {
			return nil, errors.New("its record is cut off")
		}
		f := Found{Record: stored, ID: format.IDOf(key), Shard: in.number, Bytes: len(stored), PromoteAt: at, Now: now, key: key}
		switch {
		case stored.State() != Waiting:
		case kept != "":
			f.In = Kept
		case claimed != "":
			score, err := strconv.ParseFloat(claimed, 64)
			if err != nil {
				return nil, err
			}
			f.In, f.PromoteAt = InFlight, int64(math.Floor(score))
		default:
			f.In = Scheduled
		}
		all = append(all, f)
	}
	return all, r.err
}

// Overview is what a shard has at an instant, by its running counts.
type Overview struct {
	Owner               string
	Promoting           int
	NextDue, OldestLate time.Time
	Parked              map[time.Duration]int // by the TTL of the lane; 0 is for none
}

// Overview goes by the instant at, or by Redis' clock if that is zero, and returns by which.
func (s *Store) Overview(ctx context.Context, shard *Shard, at time.Time) (o Overview, now time.Time, err error) {
	k := shard.keys
	var judgedBy []any
	if !at.IsZero() {
		judgedBy = append(judgedBy, at.UnixMilli())
	}
	answer, err := s.scripts.Glance.RunRO(ctx, s.config.Client,
		[]string{k.Schedule, k.State, k.Claimed, k.Envelopes, k.Kept}, judgedBy...).Slice()
	if err != nil {
		return Overview{}, time.Time{}, server.ClassifyRead(err)
	}
	r := reply{rest: answer}
	now = time.UnixMilli(r.int())
	o = Overview{Owner: r.string(), Promoting: int(r.int()), Parked: map[time.Duration]int{}}
	o.NextDue, o.OldestLate = InstantOf(max(r.int(), 0)), InstantOf(max(r.int(), 0))
	for r.err == nil && len(r.rest) > 0 {
		lane, err := laneOf(r.string())
		if err != nil {
			return Overview{}, time.Time{}, err
		}
		parked, err := strconv.Atoi(r.string())
		if err != nil {
			return Overview{}, time.Time{}, fmt.Errorf("the number of its messages: %w", err)
		}
		if parked > 0 {
			o.Parked[lane] = parked
		}
	}
	return o, now, r.err
}

// laneOf returns the TTL of the lane that a part of the schedule is for.
func laneOf(part string) (time.Duration, error) {
	ms, err := strconv.ParseInt(part, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("its schedule has a part %q", part)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// RunningCounts returns those of all shards, as a text that changes with them. It costs one
// command for each.
func (s *Store) RunningCounts(ctx context.Context) (string, error) {
	shards, _ := s.Shards()
	all := make([]*redis.MapStringStringCmd, len(shards))
	_, err := s.config.Client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for n, shard := range shards {
			all[n] = pipe.HGetAll(ctx, shard.keys.Counts())
		}
		return nil
	})
	if err != nil {
		return "", server.ClassifyRead(err)
	}
	var text strings.Builder
	for _, counts := range all {
		fmt.Fprintln(&text, counts.Val()) // in the order of the parts
	}
	return text.String(), nil
}

// Alive returns the IDs of the bridges alive at an instant, sorted.
func (s *Store) Alive(ctx context.Context, at time.Time) ([]string, error) {
	alive := &redis.ZRangeBy{Min: strconv.FormatInt(at.UnixMilli(), 10), Max: "+inf"}
	ids, err := s.config.Client.ZRangeByScore(ctx, format.RegisterKey(s.config.Topology), alive).Result()
	slices.Sort(ids)
	return ids, server.ClassifyRead(err)
}

// countBuckets is how many buckets of the schedule a script counts, which takes Redis
// about a millisecond.
const countBuckets = 128

// A Count is how many messages a shard has.
type Count struct {
	Owner                                    string
	Parked                                   map[time.Duration]int // by the TTL of the lane; 0 is for none
	Promoting                                int
	InLane, Due, Cancelled, Delivered, Moved int
}

// Count counts a shard, in steps of about a millisecond.
func (s *Store) Count(ctx context.Context, shard *Shard) (Count, error) {
	k, client := shard.keys, s.config.Client
	c := Count{Parked: map[time.Duration]int{}}
	var state *redis.SliceCmd
	var claimed *redis.IntCmd
	var parts *redis.StringSliceCmd
	_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		state = pipe.HMGet(ctx, k.State, "owner")
		claimed = pipe.ZCard(ctx, k.Claimed)
		parts = pipe.SMembers(ctx, k.Schedule)
		return nil
	})
	if err != nil {
		return Count{}, server.ClassifyRead(err)
	}
	c.Owner, _ = state.Val()[0].(string)
	c.Promoting = int(claimed.Val())
	for _, part := range parts.Val() {
		lane, err := laneOf(part)
		if err != nil {
			return Count{}, err
		}
		counted, err := s.countPart(ctx, k, part)
		if err != nil {
			return Count{}, err
		}
		if counted > 0 {
			c.Parked[lane] = counted
		}
	}
	return c, s.countKept(ctx, k, &c)
}

// countPart counts a part of the schedule.
func (s *Store) countPart(ctx context.Context, k format.ShardKeys, part string) (counted int, err error) {
	for bucket := "-inf"; bucket != ""; {
		answer, err := s.scripts.Count.RunRO(ctx, s.config.Client, []string{k.Schedule, k.Envelopes}, part, countBuckets, bucket).Slice()
		if err != nil {
			return 0, server.ClassifyRead(err)
		}
		r := reply{rest: answer}
		counted += int(r.int())
		if bucket = r.string(); r.err != nil {
			return 0, r.err
		}
	}
	return counted, nil
}

// countKept counts what is kept, by what has become of it.
func (s *Store) countKept(ctx context.Context, k format.ShardKeys, c *Count) error {
	score, id := "-inf", ""
	for more := true; more; {
		answer, err := s.scripts.Tally.RunRO(ctx, s.config.Client, []string{k.Kept, k.Envelopes}, pageIDs, pageBytes, score, id).Slice()
		if err != nil {
			return server.ClassifyRead(err)
		}
		r := reply{rest: answer}
		more = r.int() == 1
		score, id = r.string(), r.string()
		for _, n := range []*int{&c.InLane, &c.Due, &c.Cancelled, &c.Delivered, &c.Moved} {
			*n += int(r.int())
		}
		if r.err != nil {
			return r.err
		}
	}
	return nil
}

// Flow is what goes through a shard; see redisbridge.ShardFlow.
type Flow struct {
	Now       time.Time
	Left      int64
	Delivered []Delivery
}

// A Delivery is one that a consumer has told of.
type Delivery struct {
	Due, At time.Time
	Path    message.Path
}

// Flow returns what goes through a shard, with at most that many deliveries, all after an
// instant.
func (s *Store) Flow(ctx context.Context, shard *Shard, since time.Time, most int) (Flow, error) {
	k := shard.keys
	answer, err := s.scripts.Flow.RunRO(ctx, s.config.Client, []string{k.State, k.Kept, k.Envelopes},
		s.config.Remember.Milliseconds(), format.UnixMS(since), most).Slice()
	if err != nil {
		return Flow{}, server.ClassifyRead(err)
	}
	r := reply{rest: answer}
	f := Flow{Left: r.int(), Now: time.UnixMilli(r.int())}
	for len(r.rest) > 0 && r.err == nil {
		f.Delivered = append(f.Delivered, Delivery{InstantOf(r.int()), InstantOf(r.int()), message.Path(r.string())})
	}
	return f, r.err
}

// A Lease says who owns a shard; see redisbridge.Lease.
type Lease struct {
	Owner      string
	Ends, Next time.Time
	Claimed    int
}

// Lease reads the lease of a shard, and what waits for its owner. It writes nothing.
func (s *Store) Lease(ctx context.Context, shard *Shard) (Lease, error) {
	k, client := shard.keys, s.config.Client
	state, err := client.HMGet(ctx, k.State, "owner", "lease").Result()
	if err != nil {
		return Lease{}, server.ClassifyRead(err)
	}
	var l Lease
	l.Owner, _ = state[0].(string)
	if ends, ok := state[1].(string); ok && l.Owner != "" {
		ms, err := strconv.ParseInt(ends, 10, 64)
		if err != nil {
			return Lease{}, fmt.Errorf("%s: its lease ends at %q", k.State, ends)
		}
		l.Ends = time.UnixMilli(ms)
	}
	claimed, err := client.ZCard(ctx, k.Claimed).Result()
	if err != nil {
		return Lease{}, server.ClassifyRead(err)
	}
	l.Claimed = int(claimed)
	parts, err := client.SMembers(ctx, k.Schedule).Result()
	if err != nil {
		return Lease{}, server.ClassifyRead(err)
	}
	for _, part := range parts {
		next, err := s.headOf(ctx, k, part)
		if err != nil {
			return Lease{}, err
		}
		if !next.IsZero() && (l.Next.IsZero() || next.Before(l.Next)) {
			l.Next = next
		}
	}
	return l, nil
}

// headOf returns the first instant of promotion in a part of the schedule, or zero. A
// bucket may be empty, or gone, when it is read; the next one has to do then.
func (s *Store) headOf(ctx context.Context, k format.ShardKeys, part string) (time.Time, error) {
	const someBuckets = 3
	buckets, err := s.config.Client.ZRange(ctx, k.Part(part), 0, someBuckets-1).Result()
	if err != nil {
		return time.Time{}, server.ClassifyRead(err)
	}
	for _, b := range buckets {
		number, err := strconv.ParseInt(b, 10, 64)
		if err != nil {
			return time.Time{}, fmt.Errorf("%s has a bucket %q", k.Part(part), b)
		}
		first, err := s.config.Client.ZRangeWithScores(ctx, k.Bucket(part, number), 0, 0).Result()
		if err != nil {
			return time.Time{}, server.ClassifyRead(err)
		}
		if len(first) > 0 {
			return time.UnixMilli(number*format.BucketMS + int64(first[0].Score)), nil
		}
	}
	return time.Time{}, nil
}

// Message reads what the record has of the message. The error wraps wire.ErrEnvelope.
func (f *Found) Message() (message.Message, error) { return format.DecodeEnvelope(f.Envelope(), f.ID) }

// Outline is Message without headers and body.
func (f *Found) Outline() (message.Message, error) { return format.PeekEnvelope(f.Envelope(), f.ID) }
