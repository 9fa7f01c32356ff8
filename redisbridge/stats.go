package redisbridge

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store"
	"github.com/delaybridge/delaybridge/topology"
)

// Stats says how much waits in Redis, what goes through it, and who is at work.
type Stats struct {
	// Now is Redis' clock, that of the node of shard 0 in a cluster. What is next and what
	// is overdue is judged by it.
	Now    time.Time
	Shards []ShardStats
	// NextShards is the number of shards that there is to be, while that changes (see [Park.Reshard]); or 0.
	// Messages that are between two shards just then are in none of Shards.
	NextShards int
	// Bridges are those that are alive, sorted by ID.
	Bridges []BridgeStats
	// NextDue is when the next message is due, of those that wait in Redis and in lanes.
	// OldestLate is since when the message is overdue that has been in Redis for the
	// longest. Both are zero where there is none. Without StatsOptions.Exact, NextDue
	// leaves out lanes where IDs are remembered for a window.
	NextDue, OldestLate time.Time
	// Entries is what is stored of each entry, by name; the empty one is that of the default entry.
	Entries map[string]Usage
	// Loss is the last one that a bridge has noted down, within a day, or zero.
	Loss Loss
}

// ShardStats are those of one shard. Instants are zero where there is nothing.
type ShardStats struct {
	// Shard is its number, and Generation how often the number of shards had changed before there was this
	// one: while that changes, there are shards of two generations.
	Shard, Generation int
	// Name tells it from all others: its number, behind "old-" while messages move from it to others.
	Name string
	// Owner is the bridge that promotes the shard's messages, or empty; Alive says
	// whether it is one of those that are alive.
	Owner string
	Alive bool
	// Parked is how many messages wait, by the TTL of the lane that they are meant for;
	// 0 is for those that go straight to the ready exchange.
	Parked map[time.Duration]int
	// Promoting is how many a bridge has claimed and not settled yet.
	Promoting int
	// NextDue and OldestLate are those of Stats.
	NextDue, OldestLate time.Time
	// Left is how many messages were claimed and not put back, ever. It only tells by
	// its difference to what it was before.
	Left int64
	// Deliveries are the last ones that consumers have told Redis, the last one first: see
	// StatsOptions.Deliveries.
	Deliveries []Delivery

	// Only with StatsOptions.Exact: InLane is how many the broker has until they are due,
	// and Due how many of those that were due are still remembered. Cancelled, Delivered
	// and Moved, which were rescheduled on their way, are how many are remembered of those.
	InLane, Due, Cancelled, Delivered, Moved int

	now time.Time // by the clock of its node
}

// TotalParked is how many messages wait in all shards.
func (s *Stats) TotalParked() (n int) {
	for i := range s.Shards {
		n += s.Shards[i].TotalParked()
	}
	return n
}

// Waiting is how many messages wait in the shard, parked or being promoted.
func (s *ShardStats) Waiting() int { return s.TotalParked() + s.Promoting }

// TotalParked is the sum of Parked.
func (s *ShardStats) TotalParked() (n int) {
	for _, parked := range s.Parked {
		n += parked
	}
	return n
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

// BridgeStats is what a bridge says of itself. Other processes see what it has left in Redis:
// it renews that with its entry in the register, every 15 s, and every 2 s while it has
// something to do.
type BridgeStats struct {
	// ID is that of [Bridge.ID].
	ID string `json:"id"`
	// Until is when the bridge counts as dead, unless it renews its entry in the register
	// before, by Redis' clock; zero where it was not read from there.
	Until time.Time `json:"-"`
	// At is when the report was made, by Redis' clock. It is zero where a bridge makes
	// none, as one of an earlier release; then nothing but ID is known.
	At time.Time `json:"at,omitzero"`
	// Name is that of Config.Name, and Host that of the machine.
	Name string `json:"name,omitempty"`
	Host string `json:"host,omitempty"`
	// Version is the release of this module, or "(devel)" where the program was built from a checkout that
	// tells none. Layout is the version of what that release keeps in Redis.
	Version string `json:"version,omitempty"`
	Layout  string `json:"layout,omitempty"`
	// Started is when the bridge was made, by Redis' clock.
	Started time.Time `json:"started,omitzero"`
	// Described is what the bridge's configuration describes; nil where it does not say, as one
	// of an earlier release.
	Described *Described `json:"topology,omitempty"`
	// Shards are those that it owns.
	Shards []int `json:"shards,omitempty"`
	// Claimed and Settled count messages since the start, PerSecond since the report
	// before.
	Claimed          int64   `json:"claimed"`
	ClaimedPerSecond float64 `json:"claimed_per_s"`
	Settled          int64   `json:"settled"`
	SettledPerSecond float64 `json:"settled_per_s"`
	// PromotionLate is how long after the instant of their promotion messages were
	// claimed in the last minute: that makes no message late, as long as it is less than
	// its lane's TTL. ReadyLate is how long after they were due RabbitMQ had messages that
	// went straight to the ready exchange, or back to their queue.
	PromotionLate Percentiles `json:"promotion_late"`
	ReadyLate     Percentiles `json:"ready_late"`
	// LeaseExpiries counts the leases of shards that ran out while there was work: those
	// of other bridges, which this one took over, and its own.
	LeaseExpiries int64 `json:"lease_expiries,omitempty"`
	// TakenIn is of the messages that the bridge has taken from the inbox since its start.
	TakenIn TakenIn `json:"taken_in,omitzero"`
	// Refused counts the messages that went to quarantine since they were over their entry's
	// quota, by entry.
	Refused map[string]int64 `json:"refused,omitempty"`
	// Removed counts the messages that the bridge has removed since its start from the unrouted and
	// the quarantine queue, by the name of the queue.
	Removed map[string]Removed `json:"removed_from,omitempty"`
	// Reconnects is how often a connection to RabbitMQ was made again.
	Reconnects int64 `json:"reconnects"`
	// WithoutID counts the messages that the bridge has taken in since its start and that
	// came without a message-id.
	WithoutID int64 `json:"without_id,omitempty"`
	// Commands counts the commands that the bridge has carried out since its start, or answered
	// with an error.
	Commands int64 `json:"commands,omitempty"`
	// Conditions are what the bridge sees to be wrong.
	Conditions []ConditionState `json:"conditions,omitempty"`
}

// Removed counts messages that were removed from a queue.
type Removed struct {
	// Over were more than Config.KeepUnrouted or KeepQuarantine.
	Over int64 `json:"over,omitempty"`
	// Old were there for longer than Config.RetainUnrouted or RetainQuarantine.
	Old int64 `json:"old,omitempty"`
}

// Described is the part of a bridge's topology that others may have in another way.
type Described struct {
	TiersMS []int64  `json:"tiers_ms"` // TTLs
	LeadMS  int64    `json:"lead_ms"`  // the longest TTL of a lane
	Entries []string `json:"entries,omitempty"`
}

func describedBy(t *topology.Topology) *Described {
	var d Described
	for _, tier := range t.Tiers() {
		d.TiersMS = append(d.TiersMS, tier.TTL.Milliseconds())
	}
	for _, lead := range t.Leads() {
		d.LeadMS = lead.Milliseconds()
	}
	for _, e := range t.Entries() {
		d.Entries = append(d.Entries, e.Name)
	}
	return &d
}

// TopologyOf returns the names of what the bridge's configuration describes, with the prefix and
// the shards of t; nil where the bridge does not say. The kinds of the entries are not known.
func (b *BridgeStats) TopologyOf(t *topology.Topology) *topology.Topology {
	if b.Described == nil {
		return nil
	}
	config := topology.Config{Prefix: t.Prefix(), Shards: t.Shards(), Lead: time.Duration(b.Described.LeadMS) * time.Millisecond}
	for _, ttl := range b.Described.TiersMS {
		config.Tiers = append(config.Tiers, time.Duration(ttl)*time.Millisecond)
	}
	for _, entry := range b.Described.Entries {
		config.Entries = append(config.Entries, topology.Entry{Name: entry, Kind: amqp.ExchangeTopic})
	}
	other, err := topology.New(config)
	if err != nil {
		return nil // it does not say it in this release's words
	}
	return other
}

// Percentiles sums up durations.
type Percentiles struct {
	Messages int64 `json:"messages"`
	// P50 and P99 are in ms, rounded up by a quarter at most, and 0 without messages.
	P50 int64 `json:"p50_ms"`
	P99 int64 `json:"p99_ms"`
}

// TakenIn counts messages of the inbox by what became of them.
type TakenIn struct {
	// Parked are in Redis, Duplicates were there before, and Published went straight to
	// the ready exchange.
	Parked     int64 `json:"parked"`
	Duplicates int64 `json:"duplicates"`
	Published  int64 `json:"published"`
	// Dropped were cancelled before, and Quarantined make no sense.
	Dropped     int64 `json:"dropped"`
	Quarantined int64 `json:"quarantined"`
}

// StatsOptions of [Park.Stats]. With the zero value it costs three commands for each shard and
// two more, however much is parked.
type StatsOptions struct {
	// Exact counts what is there, in steps of about a millisecond, instead of going by
	// running counts, which may be a few messages off after a crash of Redis until another
	// bridge takes the shard. It costs a command for each two seconds of the schedule that
	// hold a message, and one for each message that is remembered. Messages that move
	// meanwhile may be counted twice, or not at all.
	Exact bool
	// Deliveries is how many deliveries are wanted of each shard, at most, and only those
	// after Since, if that is not nil. Each costs Redis some 2 µs. There are none where
	// ParkConfig.Remember is not that of the consumers, or less than twice
	// ParkConfig.Window, nor any of messages that were rescheduled, or whose consumers do
	// not ask Redis. Defaults to none.
	Deliveries int
	Since      *Stats
}

// Stats looks at each shard, and at who is at work.
func (p *Park) Stats(ctx context.Context, o StatsOptions) (Stats, error) {
	s, err := p.stats(ctx, o)
	if err != nil {
		return Stats{}, fmt.Errorf("look at Redis: %w", err)
	}
	return s, nil
}

func (p *Park) stats(ctx context.Context, o StatsOptions) (s Stats, err error) {
	if err := p.store.Check(ctx); err != nil {
		return Stats{}, err
	}
	shards, err := p.store.Current(ctx)
	if err != nil {
		return Stats{}, err
	}
	s.NextShards = p.store.Layout().Next
	for _, one := range shards {
		shard, now, err := p.shardStats(ctx, one, s.Now, o)
		if err != nil {
			return Stats{}, fmt.Errorf("shard %s: %w", one.Name(), err)
		}
		s.Now, s.Shards = now, append(s.Shards, shard)
		s.NextDue, s.OldestLate = earlier(s.NextDue, shard.NextDue), earlier(s.OldestLate, shard.OldestLate)
	}
	members, err := p.store.Members(ctx)
	if err != nil {
		return Stats{}, err
	}
	for _, m := range members {
		s.Bridges = append(s.Bridges, reportOf(m))
	}
	for i := range s.Shards {
		s.Shards[i].Alive = slices.ContainsFunc(members, func(m store.Member) bool { return m.ID == s.Shards[i].Owner })
	}
	if s.Entries, err = p.store.Usage(ctx); err != nil {
		return Stats{}, err
	}
	loss, err := p.store.Loss(ctx)
	if err != nil {
		return Stats{}, err
	}
	s.Loss = lossOf(loss)
	if !o.Exact {
		return s, nil
	}
	if s.OldestLate, err = p.firstDue(ctx, Filter{Until: s.Now}); err != nil {
		return Stats{}, err
	}
	s.NextDue, err = p.firstDue(ctx, Filter{From: s.Now})
	return s, err
}

// deliveriesWithin is the largest part of ParkConfig.Remember that ParkConfig.Window may
// be, so that what was delivered lately can be told from what is remembered for long.
const deliveriesWithin = 2

// shardStats goes by the instant at, or by Redis' clock if that is zero, and returns by which.
func (p *Park) shardStats(ctx context.Context, of *store.Shard, at time.Time, o StatsOptions) (s ShardStats, now time.Time, err error) {
	found, now, err := p.store.Overview(ctx, of, at)
	if err != nil {
		return ShardStats{}, time.Time{}, err
	}
	s = ShardStats{
		Shard: of.Number(), Generation: of.Generation(), Name: nameOf(p.store, of), Owner: found.Owner, Parked: found.Parked, Promoting: found.Promoting, NextDue: found.NextDue, OldestLate: found.OldestLate,
	}
	var since time.Time
	if o.Since != nil {
		for i := range o.Since.Shards {
			if before := &o.Since.Shards[i]; before.Shard == s.Shard && before.Generation == s.Generation {
				since = before.now
			}
		}
	}
	if p.config.Window > p.config.Remember/deliveriesWithin {
		o.Deliveries = 0
	}
	flow, err := p.store.Flow(ctx, of, since, o.Deliveries)
	if err != nil {
		return ShardStats{}, time.Time{}, err
	}
	s.Left, s.now = flow.Left, flow.Now
	for _, d := range flow.Delivered {
		s.Deliveries = append(s.Deliveries, Delivery(d))
	}
	if o.Exact {
		c, err := p.store.Count(ctx, of)
		if err != nil {
			return ShardStats{}, time.Time{}, err
		}
		s.Owner, s.Parked, s.Promoting = c.Owner, c.Parked, c.Promoting
		s.InLane, s.Due, s.Cancelled, s.Delivered, s.Moved = c.InLane, c.Due, c.Cancelled, c.Delivered, c.Moved
	}
	return s, now, nil
}

// firstDue returns when the first message is due that a filter lets through.
func (p *Park) firstDue(ctx context.Context, f Filter) (due time.Time, err error) {
	err = p.list(ctx, f, func(e MessageState) bool {
		due = e.Due
		return false
	})
	return due, err
}

// earlier returns the earlier one; zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// reportOf reads what a bridge has written. What another release has written in another way
// is as good as nothing.
func reportOf(m store.Member) BridgeStats {
	var w written
	if json.Unmarshal([]byte(m.Report), &w) != nil {
		return BridgeStats{ID: m.ID, Until: m.Until}
	}
	w.ID, w.Until, w.At, w.Started = m.ID, m.Until, m.At, m.At.Add(-time.Duration(w.UpMS)*time.Millisecond)
	return w.BridgeStats
}

// written is a report as Redis keeps it: the bridge does not say what time it is.
type written struct {
	BridgeStats
	UpMS int64 `json:"up_ms"`
}
