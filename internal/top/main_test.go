package top_test

import (
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/delaybridge/delaybridge/internal/top"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

func TestMain(m *testing.M) {
	time.Local = time.UTC
	goleak.VerifyTestMain(m)
}

// at is when every test begins, by all clocks.
func at(after time.Duration) time.Time {
	return time.Date(2030, 1, 1, 8, 0, 0, 0, time.UTC).Add(after)
}

func newTopology(t *testing.T, c topology.Config) *topology.Topology {
	t.Helper()
	described, err := topology.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return described
}

// world is what a book is told of, look by look.
type world struct {
	t       *testing.T
	all     *topology.Topology
	book    *top.Book
	now     time.Duration
	redis   top.Look
	broker  top.Look
	flows   top.Look
	perLook func(time.Duration) // changes what there is as time goes by
}

// newWorld is idle: two shards, a bridge, and queues that are empty.
func newWorld(t *testing.T) *world {
	t.Helper()
	all := newTopology(t, topology.Config{Prefix: "orders", Shards: 2})
	w := &world{t: t, all: all, book: top.NewBook(all, at(0)), perLook: func(time.Duration) {}}
	w.redis = top.Look{
		Of: top.Redis,
		Stats: redisbridge.Stats{
			Shards: []redisbridge.ShardStats{
				{Shard: 0, Name: "0", Owner: "alpha-ABCDEFGH", Alive: true, Parked: map[time.Duration]int{}},
				{Shard: 1, Name: "1", Owner: "alpha-ABCDEFGH", Alive: true, Parked: map[time.Duration]int{}},
			},
			Bridges: []redisbridge.BridgeStats{{
				ID: "alpha-ABCDEFGH", At: at(0), Name: "alpha", Host: "alpha", Version: "v1.4.0", Started: at(-26 * time.Hour), Shards: []int{0, 1},
			}},
		},
	}
	w.broker = top.Look{Of: top.RabbitMQ, Counts: topology.Counts{
		Tiers: map[time.Duration]int{}, Lanes: map[time.Duration]int{}, Queues: map[string]int{},
	}}
	w.flows = top.Look{Of: top.Management, Flows: top.Flows{
		Tiers: map[time.Duration]top.Flow{}, Lanes: map[time.Duration]top.Flow{}, Counted: true,
	}}
	for _, tier := range all.Tiers() {
		w.broker.Counts.Tiers[tier.TTL], w.flows.Flows.Tiers[tier.TTL] = 0, top.Flow{}
	}
	for _, lead := range all.Leads() {
		w.broker.Counts.Lanes[lead], w.flows.Flows.Lanes[lead] = 0, top.Flow{}
	}
	for _, q := range all.Queues() {
		w.broker.Counts.Queues[q.Name] = 0
	}
	return w
}

// look has the book take what there is, every two seconds for a while.
func (w *world) look(during time.Duration) {
	for end := w.now + during; w.now < end; w.now += 2 * time.Second {
		w.perLook(w.now)
		for _, l := range []top.Look{w.redis, w.broker, w.flows} {
			l.Asked, l.At, l.Stats.Now = at(w.now), at(w.now), at(w.now)
			l.Stats.Shards = slices.Clone(l.Stats.Shards)
			for _, s := range l.Stats.Shards {
				l.Stats.NextDue, l.Stats.OldestLate = earlier(l.Stats.NextDue, s.NextDue), earlier(l.Stats.OldestLate, s.OldestLate)
			}
			w.book.Take(l)
		}
		w.picture() // as the screen is drawn each time
	}
	w.now -= 2 * time.Second
}

// earlier returns the earlier one; zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (w *world) picture() top.Picture { return w.book.Picture(at(w.now)) }

// kinds are those of the problems there are.
func kinds(p top.Picture) (list []string) {
	for _, problem := range p.Problems {
		list = append(list, problem.Kind)
	}
	return list
}
