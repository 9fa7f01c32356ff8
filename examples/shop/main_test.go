package main

import (
	"context"
	"database/sql"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx

	"github.com/delaybridge/delaybridge"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// patience is for what has no reason to take long, on a machine that may have.
const patience = 2 * time.Minute

func TestOrdersArePaidOrClosed(t *testing.T) {
	t.Parallel()
	env, url := servertest.ForTest(t), servertest.PostgreSQL(t)
	described := topology.Config{Prefix: env.Prefix, Tiers: []time.Duration{time.Second}, Lead: time.Second}
	runBridge(t, env, described)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	config := delaybridge.Config{AMQPURL: env.AMQPURL, RedisURL: env.RedisURL, Topology: described}
	if err := run(ctx, config, url, 1500*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var all, right int
	err = db.QueryRowContext(t.Context(), `SELECT count(*), count(*) FILTER (WHERE id LIKE state || '-%' OR id LIKE 'unpaid-%' AND state = 'closed') FROM orders`).Scan(&all, &right)
	if err != nil || all != 2 || right != 2 {
		t.Errorf("of %d orders %d are as they should be (%v)", all, right, err)
	}
}

// runBridge runs a bridge until the test is over, and returns once it works.
func runBridge(t *testing.T, env servertest.Env, described topology.Config) {
	t.Helper()
	top, err := topology.New(described)
	if err != nil {
		t.Fatal(err)
	}
	bridge, err := redisbridge.New(redisbridge.Config{Client: servertest.OpenRedis(t, env.RedisURL), AMQPURL: env.AMQPURL, Topology: top, Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- bridge.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("bridge: %v", err)
		}
	})
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for deadline := time.After(patience); bridge.Check(t.Context()) != nil; {
		select {
		case <-look.C:
		case <-deadline:
			t.Fatal(bridge.Check(t.Context()))
		}
	}
}
