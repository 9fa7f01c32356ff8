package redisbridge

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/message"
)

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
	if err := p.store.Check(ctx); err != nil {
		return Counts{}, err
	}
	now, err := p.store.Now(ctx)
	if err != nil {
		return Counts{}, err
	}
	c := Counts{Now: now.Truncate(time.Millisecond)}
	for n := range p.config.Topology.Shards() {
		s, err := p.store.Count(ctx, n)
		if err != nil {
			return Counts{}, fmt.Errorf("shard %d: %w", n, err)
		}
		c.Shards = append(c.Shards, ShardCounts{
			Shard: n, Owner: s.Owner, Parked: s.Parked, Promoting: s.Promoting,
			InLane: s.InLane, Due: s.Due, Cancelled: s.Cancelled, Delivered: s.Delivered, Moved: s.Moved,
		})
	}
	if c.Bridges, err = p.store.Alive(ctx, c.Now); err != nil {
		return Counts{}, err
	}
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
	if err := p.store.Check(ctx); err != nil {
		return Glance{}, err
	}
	for n := range p.config.Topology.Shards() {
		s, now, err := p.store.Overview(ctx, n, g.Now)
		if err != nil {
			return Glance{}, fmt.Errorf("shard %d: %w", n, err)
		}
		g.Now = now
		g.Shards = append(g.Shards, ShardGlance{
			Shard: n, Owner: s.Owner, Parked: s.Parked, Promoting: s.Promoting, NextDue: s.NextDue, OldestLate: s.OldestLate,
		})
	}
	if g.Bridges, err = p.store.Alive(ctx, g.Now); err != nil {
		return Glance{}, err
	}
	for i := range g.Shards {
		g.Shards[i].Alive = slices.Contains(g.Bridges, g.Shards[i].Owner)
	}
	return g, nil
}

// ShardFlow is what goes through a shard.
type ShardFlow struct {
	Shard int
	// Now is Redis' clock.
	Now time.Time
	// Left is how many messages were claimed and not put back, ever. It only tells by
	// its difference to what it was before.
	Left int64
	// Delivered are the last deliveries that consumers have told Redis, the last one
	// first.
	Delivered []Delivery
}

// Delivery is a message that a consumer has said that it has. All instants but Due of a
// message out of a tier, which its publisher has computed, are by Redis' clock.
type Delivery struct {
	Due, At time.Time
	// Path is the way that it took, or empty where that is not known.
	Path message.Path
}

// Late is how long after it was due the message was delivered.
func (d Delivery) Late() time.Duration { return d.At.Sub(d.Due) }

// deliveriesWithin is the largest part of ParkConfig.Remember that ParkConfig.Window may
// be, so that what was delivered lately can be told from what is remembered for long.
const deliveriesWithin = 2

// Flow returns what goes through each shard, with at most that many deliveries of each, and
// only those after what Flow returned before, if that is not nil. It costs one command per
// shard, and Redis some 2 µs per delivery. There are no deliveries where
// ParkConfig.Remember is not that of the consumers, or less than twice ParkConfig.Window,
// nor any of messages that were rescheduled, or whose consumers do not ask Redis.
func (p *Park) Flow(ctx context.Context, before []ShardFlow, most int) ([]ShardFlow, error) {
	if err := p.store.Check(ctx); err != nil {
		return nil, fmt.Errorf("look at the flow: %w", err)
	}
	if p.config.Window > p.config.Remember/deliveriesWithin {
		most = 0
	}
	flows := make([]ShardFlow, p.config.Topology.Shards())
	for n := range flows {
		var since time.Time
		if n < len(before) {
			since = before[n].Now
		}
		f, err := p.store.Flow(ctx, n, since, most)
		if err != nil {
			return nil, fmt.Errorf("look at the flow of shard %d: %w", n, err)
		}
		flows[n] = ShardFlow{Shard: n, Now: f.Now, Left: f.Left}
		for _, d := range f.Delivered {
			flows[n].Delivered = append(flows[n].Delivered, Delivery(d))
		}
	}
	return flows, nil
}
