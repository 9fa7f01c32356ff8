package redisbridge

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// countBuckets is how many buckets of the schedule a script counts, which takes Redis
// about a millisecond.
const countBuckets = 128

// Counts are how many messages Redis knows of, and what is next.
type Counts struct {
	// Now is Redis' clock when counting began.
	Now    time.Time
	Shards []ShardCounts
	// Bridges are the IDs of those that are alive, sorted.
	Bridges []string
	// NextDue is when the next message is due, of those that wait in Redis or in a
	// lane. OldestLate is since when the message is overdue that has been in Redis for
	// the longest. Both are zero where there is none.
	NextDue, OldestLate time.Time
}

// ShardCounts are those of one shard.
type ShardCounts struct {
	Shard int
	// Owner is the bridge that promotes the shard's messages, or empty.
	Owner string
	// Parked is how many messages wait, by the TTL of the lane that they are meant for;
	// 0 is for those that go straight to the ready exchange.
	Parked map[time.Duration]int
	// Promoting is how many a bridge has claimed and not settled yet.
	Promoting int
	// InLane is how many the broker has until they are due, and Due how many of those
	// that were due are still remembered. Cancelled, Delivered and Moved are how many
	// are remembered of those.
	InLane, Due, Cancelled, Delivered, Moved int
}

// Count counts what Redis has, in steps of about a millisecond. Messages that move
// meanwhile may be counted twice, or not at all. It costs one command per two seconds
// of the schedule that hold a message, and one per message that is remembered.
func (p *Park) Count(ctx context.Context) (Counts, error) {
	c, err := p.count(ctx)
	if err != nil {
		return Counts{}, fmt.Errorf("count messages: %w", err)
	}
	return c, nil
}

func (p *Park) count(ctx context.Context) (Counts, error) {
	if err := p.check(ctx); err != nil {
		return Counts{}, err
	}
	us, err := p.scripts.clock.Run(ctx, p.config.Client, []string{p.keys[0].state}).Int64()
	if err != nil {
		return Counts{}, classify(err)
	}
	c := Counts{Now: time.UnixMilli(us / 1000)}
	for n := range p.keys {
		shard, err := p.countShard(ctx, n)
		if err != nil {
			return Counts{}, fmt.Errorf("shard %d: %w", n, err)
		}
		c.Shards = append(c.Shards, shard)
	}
	alive := &redis.ZRangeBy{Min: strconv.FormatInt(us/1000, 10), Max: "+inf"}
	if c.Bridges, err = p.config.Client.ZRangeByScore(ctx, registerKey(p.config.Topology), alive).Result(); err != nil {
		return Counts{}, classify(err)
	}
	slices.Sort(c.Bridges)
	if c.OldestLate, err = p.firstDue(ctx, Filter{Until: c.Now}); err != nil {
		return Counts{}, err
	}
	c.NextDue, err = p.firstDue(ctx, Filter{From: c.Now})
	return c, err
}

// firstDue returns when the first message is due that a filter lets through.
func (p *Park) firstDue(ctx context.Context, f Filter) (due time.Time, err error) {
	err = p.list(ctx, f, func(e MessageState) bool {
		due = e.Due
		return false
	})
	return due, err
}

func (p *Park) countShard(ctx context.Context, n int) (ShardCounts, error) {
	k, client := p.keys[n], p.config.Client
	c := ShardCounts{Shard: n, Parked: map[time.Duration]int{}}
	var state *redis.SliceCmd
	var claimed *redis.IntCmd
	var parts *redis.StringSliceCmd
	_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		state = pipe.HMGet(ctx, k.state, "owner")
		claimed = pipe.ZCard(ctx, k.claimed)
		parts = pipe.SMembers(ctx, k.schedule)
		return nil
	})
	if err != nil {
		return ShardCounts{}, classify(err)
	}
	c.Owner, _ = state.Val()[0].(string)
	c.Promoting = int(claimed.Val())
	for _, part := range parts.Val() {
		ms, err := strconv.ParseInt(part, 10, 64)
		if err != nil {
			return ShardCounts{}, fmt.Errorf("its schedule has a part %q", part)
		}
		counted, err := p.countPart(ctx, k, part)
		if err != nil {
			return ShardCounts{}, err
		}
		if counted > 0 {
			c.Parked[time.Duration(ms)*time.Millisecond] = counted
		}
	}
	return c, p.countKept(ctx, k, &c)
}

// countPart counts a part of the schedule.
func (p *Park) countPart(ctx context.Context, k shardKeys, part string) (counted int, err error) {
	for bucket := "-inf"; bucket != ""; {
		answer, err := p.scripts.count.Run(ctx, p.config.Client, []string{k.schedule, k.envelopes}, part, countBuckets, bucket).Slice()
		if err != nil {
			return 0, classify(err)
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
func (p *Park) countKept(ctx context.Context, k shardKeys, c *ShardCounts) error {
	score, id := "-inf", ""
	for more := true; more; {
		answer, err := p.scripts.tally.Run(ctx, p.config.Client, []string{k.kept, k.envelopes}, pageIDs, pageBytes, score, id).Slice()
		if err != nil {
			return classify(err)
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
