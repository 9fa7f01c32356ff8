package redisbridge

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
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
	// nothing was ever parked; WantVersion is the same, or the latest one that this release knows where it does
	// not know that.
	Version, WantVersion, Shards string
	// Generation is how often the number of shards has changed, and NextShards the number that there is to
	// be, while that changes, or 0.
	Generation, NextShards int
	// Bridges are those that are alive, sorted by ID.
	Bridges []BridgeStats
	// WithoutID counts the messages that these bridges have taken in since their start and
	// that came without a message-id.
	WithoutID int64
	// Loss is the last one that a bridge has noted down, within a day, or zero.
	Loss Loss
	// Refused is why bridges refuse what Redis has, or empty; see [Adopt].
	Refused string
	// Leases are those of the shards that have messages, in order: while their number changes, those from which
	// messages move come first.
	Leases []Lease
}

// Lease says who owns a shard, and what waits for the owner.
type Lease struct {
	Shard int
	// Generation and Name are those of [ShardStats].
	Generation int
	Name       string
	Owner      string    // empty if no bridge ever owned it, or the last owner gave it up
	Ends       time.Time // zero where there is no owner
	// Next is when the next message is to be promoted; zero where there is none.
	Next time.Time
	// Claimed is how many messages the owner has claimed and not settled.
	Claimed int
}

// Inspect reads who is at work under the prefix of t. Unlike the methods of a [Park] it
// writes nothing, not even the layout where there is none yet, and reports a layout that
// is not that of t instead of refusing it.
func Inspect(ctx context.Context, client redis.UniversalClient, t *topology.Topology) (Inspection, error) {
	i, err := inspect(ctx, newStore(ParkConfig{Client: client, Topology: t}))
	if err != nil {
		return Inspection{}, fmt.Errorf("redisbridge: %w", err)
	}
	return i, nil
}

func inspect(ctx context.Context, s *store.Store) (i Inspection, err error) {
	i.WantVersion = store.LayoutVersion
	if i.Now, err = s.Now(ctx); err != nil {
		return Inspection{}, err
	}
	l, err := s.ReadLayout(ctx)
	if err != nil {
		return Inspection{}, err
	}
	i.Version, i.Generation, i.NextShards = l.Version, l.Generation, l.Next
	if l.Known() {
		i.WantVersion = l.Version
	}
	if l.Shards > 0 {
		i.Shards = strconv.Itoa(l.Shards)
	}
	members, err := s.Members(ctx)
	if err != nil {
		return Inspection{}, err
	}
	for _, m := range members {
		b := reportOf(m)
		i.Bridges = append(i.Bridges, b)
		i.WithoutID += b.WithoutID
	}
	loss, err := s.Loss(ctx)
	if err != nil {
		return Inspection{}, err
	}
	i.Loss = lossOf(loss)
	installation, err := s.Installation(ctx)
	if err != nil {
		return Inspection{}, err
	}
	i.Refused = installation.Refused
	shards, err := s.Open(ctx)
	if err != nil {
		return Inspection{}, err
	}
	for _, one := range shards {
		l, err := s.Lease(ctx, one)
		if err != nil {
			return Inspection{}, err
		}
		i.Leases = append(i.Leases, Lease{Shard: one.Number(), Generation: one.Generation(), Name: nameOf(s, one), Owner: l.Owner, Ends: l.Ends, Next: l.Next, Claimed: l.Claimed})
	}
	return i, nil
}

// nameOf is [ShardStats.Name].
func nameOf(s *store.Store, shard *store.Shard) string {
	if name := strconv.Itoa(shard.Number()); !s.Moves(shard) {
		return name
	}
	return "old-" + strconv.Itoa(shard.Number())
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

// scanEvery is how often all that waits is looked through for an entry's messages.
const scanEvery = time.Minute

// PruneOptions returns o with what Redis tells [topology.Topology.Prune]: which configuration the
// bridges at work have, and how many messages of an entry wait. The errors are those of
// [Park.Stats].
//
// Where the running counts say that none waits, all that waits is looked through, once a minute,
// since these may be wrong after a crash of Redis.
func (p *Park) PruneOptions(o topology.PruneOptions) topology.PruneOptions {
	o.Bridges = func(ctx context.Context) (map[string]*topology.Topology, error) {
		if r, err := p.Resharding(ctx); err == nil && r.Next > 0 {
			return nil, fmt.Errorf("%w: what waits of an entry cannot be told", ErrResharding)
		}
		stats, err := p.Stats(ctx, StatsOptions{})
		if err != nil {
			return nil, fmt.Errorf("whether bridges have another configuration is not known: %w", err)
		}
		needed, err := p.Topology(ctx)
		if err != nil {
			return nil, err
		}
		bridges := map[string]*topology.Topology{}
		for _, b := range stats.Bridges {
			bridges[b.ID] = b.TopologyOf(needed)
		}
		return bridges, nil
	}
	scanned := map[string]time.Time{}
	o.Parked = func(ctx context.Context, entry string) (int, error) {
		stats, err := p.Stats(ctx, StatsOptions{})
		if err != nil {
			return 0, err
		}
		if n := stats.Entries[entry].Messages; n > 0 {
			return int(n), nil
		}
		if last, done := scanned[entry]; done && time.Since(last) < scanEvery {
			return 0, nil
		}
		for one, err := range p.List(ctx, Filter{}) {
			if err != nil {
				return 0, err
			}
			if one.Message.Entry == entry {
				return 1, nil
			}
		}
		scanned[entry] = time.Now()
		return 0, nil
	}
	return o
}
