package redisbridge

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Glance is what Redis has at an instant, for those who look again and again: it costs
// one command per shard and one more, however much is parked.
type Glance struct {
	// Now is Redis' clock, that of the node of shard 0 in a cluster. What is next and what
	// is overdue is judged by it.
	Now    time.Time
	Shards []ShardGlance
	// Bridges are the IDs of those that are alive, sorted.
	Bridges []string
}

// ShardGlance is what one shard has. Instants are zero where there is nothing.
type ShardGlance struct {
	Shard int
	// Owner is the bridge that promotes the shard's messages, or empty; Alive says
	// whether it is one of those that are alive.
	Owner string
	Alive bool
	// Parked is how many messages wait, by the TTL of the lane that they are meant for;
	// 0 is for those that go straight to the ready exchange.
	Parked map[time.Duration]int
	// Promoting is how many a bridge has claimed and not settled yet.
	Promoting int
	// NextDue is when the next message is due, of those that wait in Redis and, unless
	// IDs are remembered for a window, of those in lanes. OldestLate is since when the
	// message is overdue that has been in Redis for the longest.
	NextDue, OldestLate time.Time
}

// Parked is how many messages wait in all shards.
func (g *Glance) Parked() (n int) {
	for _, s := range g.Shards {
		for _, parked := range s.Parked {
			n += parked
		}
	}
	return n
}

// NextDue and OldestLate are the earliest of all shards, or zero.
func (g *Glance) NextDue() time.Time {
	return earliest(g.Shards, func(s ShardGlance) time.Time { return s.NextDue })
}

// OldestLate is the earliest of all shards, or zero.
func (g *Glance) OldestLate() time.Time {
	return earliest(g.Shards, func(s ShardGlance) time.Time { return s.OldestLate })
}

func earliest(shards []ShardGlance, of func(ShardGlance) time.Time) (first time.Time) {
	for _, s := range shards {
		if at := of(s); first.IsZero() || !at.IsZero() && at.Before(first) {
			first = at
		}
	}
	return first
}

// Glance looks at each shard. Other than [Park.Count] it goes by running counts, which
// may be a few messages off after a crash of Redis until another bridge takes the shard.
func (p *Park) Glance(ctx context.Context) (Glance, error) {
	g, err := p.glance(ctx)
	if err != nil {
		return Glance{}, fmt.Errorf("glance at Redis: %w", err)
	}
	return g, nil
}

func (p *Park) glance(ctx context.Context) (g Glance, err error) {
	if err := p.check(ctx); err != nil {
		return Glance{}, err
	}
	for n := range p.keys {
		var shard ShardGlance
		if shard, g.Now, err = p.glanceAt(ctx, n, g.Now); err != nil {
			return Glance{}, fmt.Errorf("shard %d: %w", n, err)
		}
		g.Shards = append(g.Shards, shard)
	}
	alive := &redis.ZRangeBy{Min: strconv.FormatInt(g.Now.UnixMilli(), 10), Max: "+inf"}
	if g.Bridges, err = p.config.Client.ZRangeByScore(ctx, registerKey(p.config.Topology), alive).Result(); err != nil {
		return Glance{}, classify(err)
	}
	slices.Sort(g.Bridges)
	for i := range g.Shards {
		g.Shards[i].Alive = slices.Contains(g.Bridges, g.Shards[i].Owner)
	}
	return g, nil
}

// counted returns the running counts of all shards, as a text that changes with them. It
// costs one command for each.
func (p *Park) counted(ctx context.Context) (string, error) {
	all := make([]*redis.MapStringStringCmd, len(p.keys))
	_, err := p.config.Client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for n, k := range p.keys {
			all[n] = pipe.HGetAll(ctx, k.counts())
		}
		return nil
	})
	if err != nil {
		return "", classify(err)
	}
	var text strings.Builder
	for _, counts := range all {
		fmt.Fprintln(&text, counts.Val()) // in the order of the parts
	}
	return text.String(), nil
}

// glanceAt goes by the instant at, or by Redis' clock if that is zero, and returns by which.
func (p *Park) glanceAt(ctx context.Context, n int, at time.Time) (s ShardGlance, now time.Time, err error) {
	k := p.keys[n]
	var judgedBy []any
	if !at.IsZero() {
		judgedBy = append(judgedBy, at.UnixMilli())
	}
	answer, err := p.scripts.glance.Run(ctx, p.config.Client,
		[]string{k.schedule, k.state, k.claimed, k.envelopes, k.kept}, judgedBy...).Slice()
	if err != nil {
		return ShardGlance{}, time.Time{}, classify(err)
	}
	r := reply{rest: answer}
	now = time.UnixMilli(r.int())
	s = ShardGlance{Shard: n, Owner: r.string(), Promoting: int(r.int()), Parked: map[time.Duration]int{}}
	s.NextDue, s.OldestLate = instantOf(max(r.int(), 0)), instantOf(max(r.int(), 0))
	for r.err == nil && len(r.rest) > 0 {
		part, err := strconv.ParseInt(r.string(), 10, 64)
		if err != nil {
			return ShardGlance{}, time.Time{}, fmt.Errorf("its schedule has a part %w", err)
		}
		parked, err := strconv.Atoi(r.string())
		if err != nil {
			return ShardGlance{}, time.Time{}, fmt.Errorf("the number of its messages: %w", err)
		}
		if parked > 0 {
			s.Parked[time.Duration(part)*time.Millisecond] = parked
		}
	}
	return s, now, r.err
}
