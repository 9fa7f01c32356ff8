package redisbridge_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// A bridge that dies at work is counted by the one that takes its shard over; one that
// stops in order is not.
func TestLeaseThatRanOutIsCounted(t *testing.T) {
	t.Parallel()
	b := newBench(t, topology.Config{Tiers: []time.Duration{time.Second}, Lead: time.Second, Shards: 1})
	config := redisbridge.Config{Client: b.client, AMQPURL: b.AMQPURL, Topology: b.topology, Lease: time.Second}
	dead, err := redisbridge.New(config)
	if err != nil {
		t.Fatal(err)
	}
	b.parkOne(t, "claimed", message.After(time.Millisecond))
	until(t, "the dead bridge claims", func() bool {
		n, err := redisbridge.ClaimAndVanish(t.Context(), dead, 0)
		return err == nil && n > 0
	})
	var confirms atomic.Int64
	config.ObserveConfirm = func(took time.Duration, answer error) {
		if took <= 0 || answer != nil {
			t.Errorf("the broker answered %v after %v", answer, took)
		}
		confirms.Add(1)
	}
	live, err := redisbridge.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := live.Check(t.Context()); err == nil {
		t.Error("a bridge that does not run is said to be well")
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- live.Run(ctx) }()
	b.arrivals.await(t, 1, patience)
	until(t, "the bridge is well", func() bool { return live.Check(t.Context()) == nil })
	if a := live.Stats(); a.LeaseExpiries != 1 || len(a.Shards) != 1 || a.Reconnects != 0 {
		t.Errorf("%+v; want one lease that ran out, one shard, no reconnects", a)
	}
	until(t, "the confirm is observed", func() bool { return confirms.Load() == 1 })
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := live.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "not running") {
		t.Errorf("after its end the bridge says %v", err)
	}

	next, err := redisbridge.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithCancel(context.Background())
	go func() { ended <- next.Run(ctx) }()
	until(t, "the next bridge is well", func() bool { return next.Check(t.Context()) == nil })
	if a := next.Stats(); a.LeaseExpiries != 0 {
		t.Errorf("%+v, though the last owner has given the shard up", a)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
