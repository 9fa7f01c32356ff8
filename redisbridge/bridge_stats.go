package redisbridge

import (
	"context"
	"encoding/json"
	"math/bits"
	"os"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store"
	"github.com/delaybridge/delaybridge/redisbridge/internal/upkeep"
	"github.com/delaybridge/delaybridge/topology"
)

// lateWindow is the time that a Percentiles is of: half of it at least.
const lateWindow = time.Minute

// bridgeStats keeps the books of a bridge, for its report.
type bridgeStats struct {
	b       *Bridge
	host    string
	version string
	news    chan struct{} // there is something to report

	mu               sync.Mutex
	claimed, settled int64
	withoutID        int64
	promotion, ready lateness
	owned            map[*store.Shard]bool
	dirty            bool // something has happened since the last report

	last                               time.Time // report, and what it has counted
	lastClaimed, lastSettled           int64
	claimedPerSecond, settledPerSecond float64
}

func newBridgeStats(b *Bridge) *bridgeStats {
	host, _ := os.Hostname() // an empty one is none
	return &bridgeStats{b: b, host: host, version: broker.Version(), news: make(chan struct{}, 1), owned: map[*store.Shard]bool{}}
}

// happened notes down a change, and has it reported soon.
func (r *bridgeStats) happened(change func()) {
	r.mu.Lock()
	change()
	first := !r.dirty
	r.dirty = true
	r.mu.Unlock()
	if first {
		signal(r.news)
	}
}

// Claimed takes a claim that got messages.
func (r *bridgeStats) Claimed(c *store.Claimed) {
	r.happened(func() {
		r.claimed += int64(len(c.Messages))
		for _, m := range c.Messages {
			r.promotion.add(c.Now - m.PromoteAt)
		}
	})
}

// Ready notes down how late a message is that went straight to the ready exchange.
func (r *bridgeStats) Ready(lateMS int64) { r.happened(func() { r.ready.add(lateMS) }) }

// Owns notes down whether a shard is this bridge's.
func (r *bridgeStats) Owns(shard *store.Shard, owns bool) {
	r.mu.Lock()
	same := r.owned[shard] == owns
	r.mu.Unlock()
	if !same {
		r.happened(func() { r.owned[shard] = owns })
	}
}

// Settled notes down that the broker has n messages.
func (r *bridgeStats) Settled(n int) {
	r.happened(func() { r.settled += int64(n) })
}

// tookWithoutID notes down that a message without an ID was taken in.
func (r *bridgeStats) tookWithoutID() { r.happened(func() { r.withoutID++ }) }

// connected has a connection reported that was made again.
func (r *bridgeStats) connected() { r.happened(func() {}) }

// snapshot returns what has happened, with the rates as of the last report.
func (r *bridgeStats) snapshot(now time.Time) BridgeStats {
	in := r.b.intake.Counts()
	r.mu.Lock()
	s := BridgeStats{
		Name: r.b.config.Name, Host: r.host, Version: r.version, Layout: store.LayoutVersion,
		Described: describedBy(r.b.config.Topology),
		Claimed:   r.claimed, ClaimedPerSecond: r.claimedPerSecond,
		Settled: r.settled, SettledPerSecond: r.settledPerSecond,
		PromotionLate: r.promotion.spread(now), ReadyLate: r.ready.spread(now),
		WithoutID: r.withoutID, Commands: r.b.commands.Done(),
		TakenIn: TakenIn{
			Parked: in.Parked, Duplicates: in.Duplicates, Published: in.Published, Dropped: in.Dropped, Quarantined: in.Quarantined,
		},
		Refused: r.b.intake.Refused(), Removed: map[string]Removed{},
		Conditions: reported(r.b.conditions.List(), now),
	}
	for queue, n := range r.b.trim.Removed() {
		s.Removed[queue] = Removed(n)
	}
	shards, _ := r.b.store.Shards()
	for _, shard := range shards {
		if r.owned[shard] {
			s.Shards = append(s.Shards, shard.Number())
		}
	}
	slices.Sort(s.Shards)
	s.Shards = slices.Compact(s.Shards) // while their number changes, there are two with a number
	r.mu.Unlock()
	s.LeaseExpiries = r.b.promoter.LeaseExpiries()
	for _, conn := range []*broker.Conn{r.b.conn, r.b.consume} {
		s.Reconnects += int64(conn.State().Reconnects())
	}
	return s
}

// write returns the report, as lua/attend.lua takes it. After one in which something had
// happened another one follows soon, which says that it is over.
func (r *bridgeStats) write(now time.Time) string {
	r.mu.Lock()
	if passed := now.Sub(r.last).Seconds(); !r.last.IsZero() && passed > 0 {
		r.claimedPerSecond = float64(r.claimed-r.lastClaimed) / passed
		r.settledPerSecond = float64(r.settled-r.lastSettled) / passed
	}
	r.last, r.lastClaimed, r.lastSettled = now, r.claimed, r.settled
	again := r.dirty && r.claimedPerSecond+r.settledPerSecond > 0
	r.dirty = false
	r.mu.Unlock()
	if again {
		signal(r.news)
	}
	text, err := json.Marshal(written{UpMS: now.Sub(r.b.made).Milliseconds(), BridgeStats: r.snapshot(now)})
	if err != nil {
		return ""
	}
	return string(text)
}

// lateness counts durations in classes, of the last minute: it forgets half a minute at
// a time.
type lateness struct {
	now, before classes
	since       time.Time
}

// classes has four of them for each power of two of milliseconds.
type classes [4 * 40]int64

func classOf(ms int64) int {
	if ms < 4 {
		return int(max(0, ms))
	}
	power := bits.Len64(uint64(ms)) - 3
	return min(4*power+int(ms>>power), len(classes{})-1)
}

// most returns the largest duration of a class, in ms.
func most(class int) int64 {
	if class < 8 {
		return int64(class)
	}
	power := class/4 - 1
	return (int64(class%4)+5)<<power - 1
}

func (l *lateness) add(ms int64) { l.now[classOf(ms)]++ }

func (l *lateness) spread(now time.Time) Percentiles {
	if now.Sub(l.since) >= lateWindow/2 {
		l.before, l.now, l.since = l.now, classes{}, now
	}
	var all classes
	var s Percentiles
	for i := range all {
		all[i] = l.before[i] + l.now[i]
		s.Messages += all[i]
	}
	s.P50, s.P99 = all.below(s.Messages, 50), all.below(s.Messages, 99)
	return s
}

// below returns the given percentile of n durations, in ms.
func (c *classes) below(n int64, percent int64) int64 {
	var seen int64
	for i, count := range c {
		if seen += count; count > 0 && seen*100 >= n*percent {
			return most(i)
		}
	}
	return 0
}

// signal leaves a mark in a channel of capacity 1, unless there is one already.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Stats returns what the bridge has done, and what it sees to be wrong.
func (b *Bridge) Stats() BridgeStats {
	s := b.stats.snapshot(time.Now())
	s.ID = b.id
	return s
}

// CountQueues asks the broker, over the bridge's own connection, how many messages wait
// in the queues of the topology.
func (b *Bridge) CountQueues(ctx context.Context) (topology.Counts, error) {
	channels := upkeep.ChannelsFunc(func() (*amqp.Channel, error) { return b.consume.Channel(ctx) })
	return b.topology().Count(ctx, channels)
}
