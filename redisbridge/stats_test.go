package redisbridge_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
)

// statsAgree checks that the running counts are what there is when it is counted, which
// takes a moment in which nothing moves.
func (b *bench) statsAgree(t *testing.T) redisbridge.Stats {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		counted, err := b.park.Stats(t.Context(), redisbridge.StatsOptions{Exact: true})
		if err != nil {
			t.Fatal(err)
		}
		g, err := b.park.Stats(t.Context(), redisbridge.StatsOptions{})
		if err != nil {
			t.Fatal(err)
		}
		wrong := ""
		for i, s := range g.Shards {
			if want := counted.Shards[i]; !maps.Equal(s.Parked, want.Parked) || s.Promoting != want.Promoting || s.Owner != want.Owner {
				wrong = fmt.Sprintf("shard %d: at a glance %+v, counted %+v", i, s, want)
			}
		}
		if wrong == "" {
			return g
		}
		if time.Now().After(deadline) {
			t.Fatal(wrong)
		}
	}
}

func TestStats(t *testing.T) {
	t.Parallel()
	const n = 120
	b := newBench(t, short())
	for i := range 20 {
		b.parkOne(t, fmt.Sprint("first-", i), message.After(24*time.Hour))
	}
	g := b.statsAgree(t)
	first := g.TotalParked() // parked by the bench
	if !g.OldestLate.IsZero() || len(g.Bridges) != 0 || g.NextDue.Sub(g.Now) < 23*time.Hour {
		t.Errorf("little parked: got %+v", g)
	}
	tickets := b.parkAtOnce(t, n, func(i int) message.When { return message.After(time.Hour + time.Duration(i)*time.Second) })
	b.parkAtOnce(t, n, func(i int) message.When { return message.After(time.Hour + time.Duration(i)*time.Second) }) // repetitions
	if g := b.statsAgree(t); g.TotalParked() != first+n || !g.NextDue.Equal(tickets[0].Due) {
		t.Errorf("%d parked, next due %v; want %d, %v", g.TotalParked(), g.NextDue, first+n, tickets[0].Due)
	}
	for i := range n {
		id := fmt.Sprint("m-", i)
		switch i % 3 {
		case 0:
			if _, err := b.park.Cancel(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		case 1:
			if _, err := b.park.Reschedule(t.Context(), id, message.After(900*time.Millisecond)); err != nil {
				t.Fatal(err)
			}
		}
	}
	g = b.statsAgree(t)
	if g.TotalParked() != first+n*2/3 || g.Shards[0].Owner != "" || g.Shards[0].Alive {
		t.Errorf("got %+v, want %d parked and no owner", g, first+n*2/3)
	}
	for deadline := time.Now().Add(patience); g.OldestLate.IsZero(); g = b.statsAgree(t) {
		if time.Now().After(deadline) {
			t.Fatalf("nothing is late without a bridge: %+v", g)
		}
	}
	if g.Now.Before(g.OldestLate) || g.NextDue.Before(g.Now) {
		t.Errorf("late since %v, next due %v, at %v", g.OldestLate, g.NextDue, g.Now)
	}
	b.run(t, nil)
	b.arrivals.await(t, n/3, patience)
	busy := func(s redisbridge.ShardStats) bool { return s.Promoting != 0 }
	for deadline := time.Now().Add(patience); g.TotalParked() != first+n/3 || slices.ContainsFunc(g.Shards, busy); g = b.statsAgree(t) {
		if time.Now().After(deadline) {
			t.Fatalf("got %+v, want %d parked", g, first+n/3)
		}
	}
	if len(g.Bridges) != 1 || g.Shards[0].Owner != g.Bridges[0].ID || !g.Shards[0].Alive || !g.OldestLate.IsZero() || !g.NextDue.Equal(tickets[2].Due) {
		t.Errorf("with a bridge: got %+v, want %v to be next", g, tickets[2].Due)
	}
}

// onceAnswered does something after the first script of a client.
type onceAnswered struct {
	once sync.Once
	do   func()
}

func (o *onceAnswered) DialHook(next redis.DialHook) redis.DialHook { return next }

func (o *onceAnswered) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if strings.HasPrefix(cmd.Name(), "eval") && err == nil {
			o.once.Do(o.do)
		}
		return err
	}
}

func (o *onceAnswered) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// What becomes due between the looks at two shards is due later, in all that is said of it.
func TestStatsAreOfOneInstant(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	id := "m"
	for redisbridge.ShardIn(b.topology, id) == 0 {
		id += "m"
	}
	due := b.parkOne(t, id, message.After(3*time.Second))
	b.client.AddHook(&onceAnswered{do: func() { <-time.After(time.Until(due) + 100*time.Millisecond) }})
	g, err := b.park.Stats(t.Context(), redisbridge.StatsOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !g.Now.Before(due) {
		t.Fatalf("looked at %v, after what is due at %v", g.Now, due)
	}
	if !g.OldestLate.IsZero() || !g.NextDue.Equal(due) {
		t.Errorf("at %v: late since %v, next due %v, want %v", g.Now, g.OldestLate, g.NextDue, due)
	}
}

// A crash of Redis, or an entry made in vain, may leave the running counts wrong. The
// next owner of the shard puts them right.
func TestNextOwnerCountsAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	b.parkOne(t, "one", message.After(time.Hour))
	for shard := range b.topology.Shards() {
		if err := redisbridge.Miscount(t.Context(), b.park, shard, 7); err != nil {
			t.Fatal(err)
		}
	}
	if g, err := b.park.Stats(t.Context(), redisbridge.StatsOptions{}); err != nil || g.TotalParked() < 8 {
		t.Fatalf("got %+v, %v; want it wrong", g, err)
	}
	b.run(t, nil)
	for deadline := time.Now().Add(patience); ; {
		g, err := b.park.Stats(t.Context(), redisbridge.StatsOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if g.TotalParked() == 1 && g.Shards[0].Alive {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %+v, want 1 parked", g)
		}
	}
}

// bridgesOf returns the bridges alive.
func bridgesOf(ctx context.Context, park *redisbridge.Park) ([]redisbridge.BridgeStats, error) {
	s, err := park.Stats(ctx, redisbridge.StatsOptions{})
	return s.Bridges, err
}

// flowOf returns what goes through the shards, with up to most deliveries after what it
// returned before.
func flowOf(ctx context.Context, park *redisbridge.Park, before []redisbridge.ShardStats, most int) ([]redisbridge.ShardStats, error) {
	o := redisbridge.StatsOptions{Deliveries: most}
	if before != nil {
		o.Since = &redisbridge.Stats{Shards: before}
	}
	s, err := park.Stats(ctx, o)
	return s.Shards, err
}
