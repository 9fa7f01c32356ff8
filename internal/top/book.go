package top

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/topology"
)

// Book keeps what was seen, as much as the next [Picture] needs.
type Book struct {
	topology *topology.Topology
	began    time.Time
	sources  [3]SourceState

	redis  Look // the last good ones
	broker Look
	flows  Look

	shards       map[string]*flow // by name
	tiers, lanes map[time.Duration]*mean
	inbox        mean
	inboxDepth   meter
	deliveries   deliveries
	problems     map[string]Problem // those that there were, by kind
	doubts       map[string]time.Time
}

// NewBook begins one at an instant of this machine's clock.
func NewBook(t *topology.Topology, now time.Time) *Book {
	b := &Book{
		topology: t, began: now, shards: map[string]*flow{}, tiers: map[time.Duration]*mean{}, lanes: map[time.Duration]*mean{},
		inboxDepth: meter{span: meterSpan},
		problems:   map[string]Problem{}, doubts: map[string]time.Time{},
	}
	for _, tier := range t.Tiers() {
		b.tiers[tier.TTL], b.lanes[tier.TTL] = &mean{}, &mean{}
	}
	return b
}

// Take notes down what a source has answered.
func (b *Book) Take(l Look) {
	state := &b.sources[l.Of]
	if l.Err != nil {
		state.Error, state.Reason = l.Err.Error(), innermost(l.Err).Error()
		if state.Since.IsZero() {
			state.Since = l.Asked
			if state.Answered.IsZero() {
				state.Since = b.began
			}
		}
		return
	}
	*state = SourceState{Answered: l.At}
	switch l.Of {
	case Redis:
		b.takeRedis(l)
	case RabbitMQ:
		b.broker = l
		b.inboxDepth.add(l.At, int64(l.Counts.Queues[b.topology.Inbox()]), false)
	case Management:
		b.takeFlows(l)
	}
}

// innermost is what an error comes from.
func innermost(err error) error {
	for {
		var next error
		switch wrapping := err.(type) { //nolint:errorlint // it goes through the chain itself
		case interface{ Unwrap() error }:
			next = wrapping.Unwrap()
		case interface{ Unwrap() []error }:
			all := wrapping.Unwrap()
			next = all[len(all)-1]
		}
		if next == nil || errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		err = next
	}
}

func (b *Book) takeRedis(l Look) {
	b.redis = l
	for _, s := range l.Stats.Shards {
		if b.shards[s.Name] == nil {
			b.shards[s.Name] = &flow{meter{span: meterSpan}, meter{span: meterSpan}}
		}
		b.shards[s.Name].add(l.At, s.Left, s.TotalParked())
	}
	b.deliveries.add(l.Stats.Shards)
	b.deliveries.forget(l.Stats.Now)
}

func (b *Book) takeFlows(l Look) {
	b.flows = l
	if !l.Flows.Counted {
		return
	}
	for ttl, f := range l.Flows.Tiers {
		b.tiers[ttl].add(l.At, f)
	}
	for ttl, f := range l.Flows.Lanes {
		b.lanes[ttl].add(l.At, f)
	}
	b.inbox.add(l.At, l.Flows.Inbox)
}

// Picture is what is known at an instant of this machine's clock.
func (b *Book) Picture(now time.Time) Picture {
	p := Picture{
		At: now, Prefix: b.topology.Prefix(), Redis: b.sources[Redis], RabbitMQ: b.sources[RabbitMQ], Management: b.sources[Management],
		Now: b.redis.Stats.Now, NextDue: b.redis.Stats.NextDue, OldestLate: b.redis.Stats.OldestLate, Bridges: b.redis.Stats.Bridges,
		Late:  b.deliveries.of(func(delivered) bool { return true }),
		Inbox: b.queue(b.topology.Inbox(), &b.inbox), Unrouted: b.queue(b.topology.Unrouted(), nil), Quarantine: b.queue(b.topology.Quarantine(), nil),
	}
	b.addShards(&p)
	b.addRows(&p)
	if notTaken, _, known := b.notTaken(); known {
		p.NotTaken = &notTaken
	}
	p.Problems = b.findProblems(&p, now)
	return p
}

func (b *Book) addShards(p *Picture) {
	p.In, p.Out = Rate{Known: true}, Rate{Known: true}
	for _, s := range b.redis.Stats.Shards {
		line := Shard{
			Shard: s.Shard, Name: s.Name, Owner: s.Owner, Alive: s.Alive, Parked: s.TotalParked(), Promoting: s.Promoting,
			NextDue: s.NextDue, OldestLate: s.OldestLate,
			Late: b.deliveries.of(func(d delivered) bool { return d.shard == s.Name }),
		}
		line.In, line.Out = b.shards[s.Name].rates()
		p.In, p.Out = sum(p.In, line.In), sum(p.Out, line.Out)
		p.Promoting += s.Promoting
		p.Parked += line.Parked
		p.Shards = append(p.Shards, line)
	}
	if len(p.Shards) == 0 {
		p.In, p.Out = Rate{}, Rate{}
	}
}

func sum(a, b Rate) Rate {
	return Rate{a.PerSecond + b.PerSecond, a.Known && b.Known}
}

// addRows has a row for each tier, for each lane that something is parked for, though the
// configuration does not have it any more, and for what needs none.
func (b *Book) addRows(p *Picture) {
	parked := map[time.Duration]int{}
	for _, s := range b.redis.Stats.Shards {
		for lane, n := range s.Parked {
			parked[lane] += n
		}
	}
	ttls := []time.Duration{0}
	for _, tier := range b.topology.Tiers() {
		ttls = append(ttls, tier.TTL)
	}
	for lane := range parked {
		if !slices.Contains(ttls, lane) {
			ttls = append(ttls, lane)
		}
	}
	slices.Sort(ttls)
	for _, ttl := range ttls {
		row, name := Row{Parked: parked[ttl]}, wire.TTLName(ttl)
		if ttl == 0 {
			row.Late = b.deliveries.by(wire.ReadyPath)
		} else {
			row.TTL = name
		}
		if mean, there := b.tiers[ttl]; there {
			row.Tier = newQueue(count(b.broker.Counts.Tiers, ttl), mean)
			row.Tier.Late = b.deliveries.by(message.Path(wire.TierPath(name)))
		}
		if slices.Contains(b.topology.Leads(), ttl) {
			row.Lane = newQueue(count(b.broker.Counts.Lanes, ttl), b.lanes[ttl])
			row.Lane.Late = b.deliveries.by(message.Path(wire.LanePath(name)))
		}
		p.Rows = append(p.Rows, row)
	}
}

func count(counts map[time.Duration]int, ttl time.Duration) *int {
	if n, there := counts[ttl]; there {
		return &n
	}
	return nil
}

// newQueue leaves the rates of a queue that is not there unknown.
func newQueue(waiting *int, m *mean) *Queue {
	q := &Queue{Messages: waiting}
	if waiting != nil {
		q.In, q.Out = m.rates()
	}
	return q
}

func (b *Book) queue(name string, m *mean) Queue {
	if n, there := b.broker.Counts.Queues[name]; there {
		return *newQueue(&n, m)
	}
	return Queue{}
}

// notTaken is how many messages are due, and not taken by the queue they lead to, and how
// long they wait at the rate at which some are taken.
func (b *Book) notTaken() (n int, wait time.Duration, known bool) {
	var out float64
	for _, sums := range []map[time.Duration]Flow{b.flows.Flows.Tiers, b.flows.Flows.Lanes} {
		for _, f := range sums {
			n += f.NotTaken
			out += max(0, f.In-f.Change)
		}
	}
	return n, time.Duration(float64(n) / max(out, 0.1) * float64(time.Second)), b.flows.Flows.Tiers != nil
}
