package doctor_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/internal/doctor"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// What a bridge has seen vanish from Redis, the doctor says.
func TestLossInRedisIsFound(t *testing.T) {
	t.Parallel()
	const check = "bridges and leases"
	store, env := newStore(t), servertest.ForTest(t)
	top, err := topology.New(topology.Config{Prefix: env.Prefix, Tiers: []time.Duration{time.Second}, Lead: time.Second, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	i := &installation{Env: servertest.Env{RedisURL: store.URL()}}
	i.config = doctor.Config{
		Topology: top, AMQPURL: env.AMQPURL, Redis: i.client(t, store.URL()), Patience: 5 * time.Second,
		Management: i.management(t, "http://127.0.0.1:1"), // it is not asked
	}
	client := i.client(t, store.URL())
	bridge, err := redisbridge.New(redisbridge.Config{Client: client, AMQPURL: env.AMQPURL, Topology: top})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- bridge.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	i.hasNot(t, check, "no-bridge")
	i.hasNot(t, check, "redis-lost")
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	i.has(t, check, "redis-lost", "prefix "+env.Prefix)
}

// Which checks are left is told as they are made, and none is at the end.
func TestProgressEndsWithNothingLeft(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	top, err := topology.New(topology.Config{})
	if err != nil {
		t.Fatal(err)
	}
	i := &installation{Env: servertest.Env{RedisURL: store.URL()}}
	var told [][]string
	c := doctor.Config{
		Topology: top, AMQPURL: "amqp://127.0.0.1:1/", Redis: i.client(t, store.URL()), Patience: 5 * time.Second,
		Management: i.management(t, "http://127.0.0.1:1"), Progress: func(left []string) { told = append(told, left) },
	}.OnlyChecks("Redis' settings", "Redis' version and state")
	if _, err := doctor.Examine(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if len(told) != 3 || len(told[0]) != 2 || len(told[2]) != 0 || !slices.Contains(told[0], "Redis' settings") {
		t.Errorf("told %q", told)
	}
}
