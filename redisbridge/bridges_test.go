package redisbridge_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// reportWhen returns the report of the only bridge once it is as wanted.
func reportWhen(t *testing.T, park *redisbridge.Park, what string, wanted func(redisbridge.BridgeStats) bool) redisbridge.BridgeStats {
	t.Helper()
	var last []redisbridge.BridgeStats
	for began := time.Now(); time.Since(began) < 30*time.Second; <-time.After(100 * time.Millisecond) {
		var err error
		if last, err = bridgesOf(t.Context(), park); err != nil {
			t.Fatal(err)
		}
		if len(last) == 1 && wanted(last[0]) {
			return last[0]
		}
	}
	t.Fatalf("%s: %+v", what, last)
	return redisbridge.BridgeStats{}
}

func TestLatenessIsRoundedUpALittle(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64Range(0, int64(10*365*24*time.Hour/time.Millisecond)).Draw(t, "ms")
		if shown := redisbridge.LateClass(ms); shown < ms || shown > ms+ms/4 {
			t.Fatalf("%d ms count as up to %d ms", ms, shown)
		}
	})
}

// A bridge says what it has done within seconds, says once that it is over, and is then
// as quiet as before.
func TestBridgeReportsWhatItDoes(t *testing.T) {
	t.Parallel()
	b := newBench(t, topology.Config{Tiers: []time.Duration{time.Second, 5 * time.Second}, Lead: time.Second, Shards: 2})
	stop := b.run(t, func(c *redisbridge.Config) { c.Name = "billing" })
	owns := func(r redisbridge.BridgeStats) bool { return slices.Equal(r.Shards, []int{0, 1}) }
	first := reportWhen(t, b.park, "a bridge owns both shards", owns)
	switch {
	case first.Name != "billing" || first.Host == "" || first.At.IsZero():
		t.Errorf("the report %+v has no name, host or instant", first)
	case first.Version == "" || first.Layout == "":
		t.Errorf("the report %+v does not say of which release the bridge is", first)
	case first.Started.After(first.At) || first.At.Sub(first.Started) > time.Minute:
		t.Errorf("started at %v, and reported at %v", first.Started, first.At)
	case first.Claimed != 0 || first.Reconnects != 0 || first.PromotionLate.Messages != 0:
		t.Errorf("the report %+v of a bridge that has done nothing", first)
	}
	const n = 40
	for i := range n {
		delay := 2 * time.Second
		if i%2 == 0 {
			delay = 300 * time.Millisecond // no lane is so short
		}
		b.parkOne(t, fmt.Sprint("m-", i), message.After(delay))
	}
	r := reportWhen(t, b.park, "all are settled", func(r redisbridge.BridgeStats) bool { return r.Settled == n })
	if r.Claimed < n || r.PromotionLate.Messages < n || r.ReadyLate.Messages != n/2 {
		t.Errorf("%d claimed, %d promoted, %d straight to ready, want %d, %d and %d",
			r.Claimed, r.PromotionLate.Messages, r.ReadyLate.Messages, n, n, n/2)
	}
	calm := func(r redisbridge.BridgeStats) bool { return r.ClaimedPerSecond == 0 && r.SettledPerSecond == 0 }
	quiet := reportWhen(t, b.park, "nothing happens any more", calm)
	if quiet.Settled != n || quiet.ReadyLate.Messages != n/2 {
		t.Errorf("afterwards the report is %+v", quiet)
	}
	flows, err := flowOf(t.Context(), b.park, nil, 100)
	if err != nil {
		t.Fatal(err)
	}
	if left := flows[0].Left + flows[1].Left; left != n {
		t.Errorf("%d have left the schedules, want %d", left, n)
	}
	stop()
	if left, err := bridgesOf(t.Context(), b.park); err != nil || len(left) > 0 {
		t.Errorf("after its end there are the bridges %v (%v)", left, err)
	}
	if kept, err := b.client.HLen(t.Context(), "{"+b.Prefix+"}:reports").Result(); err != nil || kept != 0 {
		t.Errorf("%d reports are left (%v)", kept, err)
	}
}

// A report goes with the entry of its bridge, whoever removes that.
func TestReportOfTheDeadIsForgotten(t *testing.T) {
	t.Parallel()
	b := newBench(t, topology.Config{Tiers: []time.Duration{time.Second}, Shards: 1})
	ctx := t.Context()
	register, reports := "{"+b.Prefix+"}:bridges", "{"+b.Prefix+"}:reports"
	for _, err := range []error{
		b.client.ZAdd(ctx, register, redis.Z{Score: 1, Member: "dead-1"}).Err(),
		b.client.ZAdd(ctx, register, redis.Z{Score: 1e15, Member: "old-1"}).Err(), // of a release that reports nothing
		b.client.HSet(ctx, reports, "dead-1", `1 {"name":"dead"}`).Err(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	before, err := bridgesOf(ctx, b.park)
	if err != nil || len(before) != 1 || before[0].ID != "old-1" || !before[0].At.IsZero() {
		t.Errorf("bridges %+v (%v), want old-1, who reports nothing", before, err)
	}
	b.run(t, nil)
	for began, n := time.Now(), 0; n < 2; <-time.After(50 * time.Millisecond) {
		list, err := bridgesOf(ctx, b.park)
		if n = len(list); err != nil || time.Since(began) > 30*time.Second {
			t.Fatalf("the bridge has not reported: %+v (%v)", list, err)
		}
	}
	if there, err := b.client.HExists(ctx, reports, "dead-1").Result(); err != nil || there {
		t.Errorf("the report of the dead is still there (%v)", err)
	}
	if left, err := b.client.PTTL(ctx, reports).Result(); err != nil || left <= 0 || left > time.Minute {
		t.Errorf("the reports expire in %v (%v), want within a minute", left, err)
	}
}

// Bridges that come while one is not subscribed yet, or no longer, are not overheard: their
// shards would be late to be handed over to them.
func TestSubscribingLooksAtTheRegister(t *testing.T) {
	t.Parallel()
	top, err := topology.New(topology.Config{})
	if err != nil {
		t.Fatal(err)
	}
	client, err := redisbridge.NewClient("redis://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	bridge, err := redisbridge.New(redisbridge.Config{Client: client, Topology: top, AMQPURL: "amqp://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	if !redisbridge.LooksAtRegisterOnceSubscribed(bridge) {
		t.Error("what the register has become before the subscription is not looked at")
	}
}

// Deliveries are seen as consumers tell of them, and none twice.
func TestFlowShowsDeliveries(t *testing.T) {
	t.Parallel()
	b := newBench(t, topology.Config{Tiers: []time.Duration{time.Second}, Shards: 2})
	ctx := t.Context()
	published := time.Now().Add(-time.Minute).Truncate(time.Millisecond)
	arrive := func(id string, late time.Duration) {
		m := &message.Message{ID: id, Journey: message.Journey{Published: published, Due: published.Add(30 * time.Second), Path: message.Path("tier 30s")}}
		if _, err := b.park.Arrive(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		arrive(fmt.Sprint("m-", i), 0)
	}
	if _, err := b.park.Cancel(ctx, "m-cancelled"); err != nil {
		t.Fatal(err)
	}
	handled := message.Handling{At: time.Now(), Queue: "billing"}
	if err := b.park.Handled(ctx, &message.Message{ID: "m-0", Journey: message.Journey{Published: published}}, handled); err != nil {
		t.Fatal(err)
	}
	seen := func(before []redisbridge.ShardStats, most int) (n int, flows []redisbridge.ShardStats) {
		flows, err := flowOf(ctx, b.park, before, most)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range flows {
			n += len(f.Deliveries)
			for _, d := range f.Deliveries {
				if !d.Due.Equal(published.Add(30*time.Second)) || d.Path != message.Path("tier 30s") || d.Late() != d.At.Sub(d.Due) {
					t.Errorf("delivery %+v of what was due at %v", d, published.Add(30*time.Second))
				}
			}
		}
		return n, flows
	}
	n, flows := seen(nil, 100)
	if n != 20 {
		t.Errorf("%d deliveries, want 20", n)
	}
	if n, _ := seen(flows, 100); n != 0 {
		t.Errorf("%d deliveries more afterwards", n)
	}
	if n, _ := seen(nil, 1); n != 2 {
		t.Errorf("%d deliveries, want one of each shard", n)
	}
	forgetful, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: b.client, Topology: b.topology, Window: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if flows, err := flowOf(ctx, forgetful, nil, 100); err != nil || len(flows[0].Deliveries) > 0 {
		t.Errorf("with a long window there are %d deliveries (%v)", len(flows[0].Deliveries), err)
	}
}
