package redisbridge_test

import (
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
)

func TestIdleBridgeIsQuiet(t *testing.T) {
	t.Parallel()
	store := servertest.RedisForTest(t)
	env := servertest.ForTest(t)
	env.RedisURL = store.URL()
	b := newBenchAt(t, short(), env)
	b.run(t, nil)
	for _, id := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		b.parkOne(t, id, message.After(time.Hour))
	}
	watch, err := redisbridge.NewClient(store.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = watch.Close() })
	commands := func() int64 {
		n, err := watch.InfoMap(t.Context(), "stats").Result()
		if err != nil {
			t.Fatal(err)
		}
		return parseInt(t, n["Stats"]["total_commands_processed"])
	}
	time.Sleep(3 * time.Second) // until the connections are made and the shards divided
	before := commands()
	const watched = 20 * time.Second
	time.Sleep(watched) // the silence under test
	// One of the commands is our own.
	if n := commands() - before - 1; float64(n)/watched.Seconds() >= 1 {
		t.Errorf("%d commands in %v with nothing due, want fewer than one a second", n, watched)
	} else {
		t.Logf("%d commands in %v", n, watched)
	}
}
