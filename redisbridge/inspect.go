package redisbridge

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/redisbridge/internal/store"
	"github.com/delaybridge/delaybridge/topology"
)

// Inspection is what Redis holds under a prefix beside messages.
type Inspection struct {
	// Now is Redis' clock.
	Now time.Time
	// Version of the layout and number of shards that are noted down, both empty where
	// nothing was ever parked; WantVersion is this release's.
	Version, WantVersion, Shards string
	Bridges                      []Attendance
	// WithoutID counts the messages that these bridges have taken in since their start and
	// that came without a message-id.
	WithoutID int64
	// Reports are what the bridges of the register say of themselves.
	Reports []BridgeReport
	// Loss is the last one that a bridge has noted down, within a day, or zero.
	Loss Loss
	// Leases are those of the shards that the topology describes, in order.
	Leases []Lease
}

// Attendance is a bridge's entry in the register, which it renews every 15 seconds.
type Attendance struct {
	ID    string
	Until time.Time // then it counts as dead
}

// Lease says who owns a shard, and what waits for the owner.
type Lease struct {
	Shard int
	Owner string    // empty if no bridge ever owned it, or the last owner gave it up
	Ends  time.Time // zero where there is no owner
	// Next is when the next message is to be promoted; zero where there is none.
	Next time.Time
	// Claimed is how many messages the owner has claimed and not settled.
	Claimed int
}

// Inspect reads who is at work under the prefix of t. Unlike the methods of a [Park] it
// writes nothing, not even the layout where there is none yet, and reports a layout that
// is not that of t instead of refusing it.
func Inspect(ctx context.Context, client redis.UniversalClient, t *topology.Topology) (Inspection, error) {
	i, err := inspect(ctx, newStore(ParkConfig{Client: client, Topology: t}), t.Shards())
	if err != nil {
		return Inspection{}, fmt.Errorf("redisbridge: %w", err)
	}
	return i, nil
}

func inspect(ctx context.Context, s *store.Store, shards int) (i Inspection, err error) {
	i.WantVersion = store.LayoutVersion
	if i.Now, err = s.Now(ctx); err != nil {
		return Inspection{}, err
	}
	if i.Version, i.Shards, err = s.Layout(ctx); err != nil {
		return Inspection{}, err
	}
	members, err := s.Members(ctx)
	if err != nil {
		return Inspection{}, err
	}
	for _, m := range members {
		report := reportOf(m)
		i.Bridges = append(i.Bridges, Attendance{m.ID, m.Until})
		i.Reports = append(i.Reports, report)
		i.WithoutID += report.WithoutID
	}
	loss, err := s.Loss(ctx)
	if err != nil {
		return Inspection{}, err
	}
	i.Loss = lossOf(loss)
	for n := range shards {
		l, err := s.Lease(ctx, n)
		if err != nil {
			return Inspection{}, err
		}
		i.Leases = append(i.Leases, Lease{Shard: n, Owner: l.Owner, Ends: l.Ends, Next: l.Next, Claimed: l.Claimed})
	}
	return i, nil
}

// BridgeReport is what a bridge says of itself. It renews it with its entry in the
// register, every 15 s, and every 2 s while it has something to do.
type BridgeReport struct {
	// ID is that of [Bridge.ID].
	ID string `json:"id"`
	// At is when the report was made, by Redis' clock. It is zero where a bridge makes
	// none, as one of an earlier release; then nothing but ID is known.
	At time.Time `json:"at,omitzero"`
	// Name is that of Config.Name, and Host that of the machine.
	Name string `json:"name,omitempty"`
	Host string `json:"host,omitempty"`
	// Version is the release of this module.
	Version string `json:"version,omitempty"`
	// Started is when the bridge was made, by Redis' clock.
	Started time.Time `json:"started,omitzero"`
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
	PromotionLate Spread `json:"promotion_late"`
	ReadyLate     Spread `json:"ready_late"`
	// Reconnects is how often a connection to RabbitMQ was made again.
	Reconnects int64 `json:"reconnects"`
	// WithoutID counts the messages that the bridge has taken in since its start and that
	// came without a message-id.
	WithoutID int64 `json:"without_id,omitempty"`
	// Conditions are what the bridge sees to be wrong.
	Conditions []ReportedCondition `json:"conditions,omitempty"`
}

// Spread sums up durations.
type Spread struct {
	Messages int64 `json:"messages"`
	// P50 and P99 are in ms, rounded up by a quarter at most, and 0 without messages.
	P50 int64 `json:"p50_ms"`
	P99 int64 `json:"p99_ms"`
}

// Bridges returns the reports of the bridges alive, sorted by ID. It costs one command.
func (p *Park) Bridges(ctx context.Context) ([]BridgeReport, error) {
	reports, err := p.bridges(ctx)
	if err != nil {
		return nil, fmt.Errorf("list bridges: %w", err)
	}
	return reports, nil
}

func (p *Park) bridges(ctx context.Context) ([]BridgeReport, error) {
	if err := p.store.Check(ctx); err != nil {
		return nil, err
	}
	members, err := p.store.Members(ctx)
	if err != nil {
		return nil, err
	}
	reports := make([]BridgeReport, len(members))
	for i, m := range members {
		reports[i] = reportOf(m)
	}
	return reports, nil
}

// reportOf reads what a bridge has written. What another release has written in another way
// is as good as nothing.
func reportOf(m store.Member) BridgeReport {
	var w written
	if json.Unmarshal([]byte(m.Report), &w) != nil {
		return BridgeReport{ID: m.ID}
	}
	w.ID, w.At, w.Started = m.ID, m.At, m.At.Add(-time.Duration(w.UpMS)*time.Millisecond)
	return w.BridgeReport
}

// written is a report as Redis keeps it: the bridge does not say what time it is.
type written struct {
	BridgeReport
	UpMS int64 `json:"up_ms"`
}

// A Loss is what a bridge has noted down when it saw that its data in Redis had vanished.
type Loss struct {
	// At is when the bridge saw it, by the bridge's clock.
	At time.Time `json:"at"`
	// Bridge is the ID of the one that saw it, and What is what had vanished.
	Bridge string `json:"bridge"`
	What   string `json:"what"`
}

// String says when, what, and who has seen it.
func (l Loss) String() string {
	return fmt.Sprintf("seen at %s: %s (bridge %s)", l.At.UTC().Format(time.RFC3339), l.What, l.Bridge)
}

// Loss returns what was lost in Redis within the last day, and false where no bridge has
// seen such a thing. It costs one command.
func (p *Park) Loss(ctx context.Context) (Loss, bool, error) {
	text, err := p.store.Loss(ctx)
	if err != nil {
		return Loss{}, false, fmt.Errorf("ask for losses: %w", err)
	}
	return lossOf(text), text != "", nil
}

// lossOf reads what a bridge has noted down, or nothing.
func lossOf(text string) (l Loss) {
	if text != "" && json.Unmarshal([]byte(text), &l) != nil {
		l.What = text // of another release
	}
	return l
}
