package redisbridge_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/message"
)

func TestIdleBridgeIsQuiet(t *testing.T) {
	t.Parallel()
	store := servertest.RedisForTest(t)
	env := servertest.ForTest(t)
	env.RedisURL = store.URL()
	b := newBenchAt(t, short(), env)
	for _, id := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		b.parkOne(t, id, message.After(time.Hour))
	}
	b.run(t, nil)
	watch := operator(servertest.Primaries(t, store.URL()))
	commands := func() (n int64) {
		for _, server := range watch {
			n += commandsOfClients(t, server)
		}
		return n
	}
	// The connections are made and the shards divided once there are two silent seconds.
	before := commands()
	for deadline := time.Now().Add(patience); ; {
		time.Sleep(2 * time.Second)
		now := commands()
		if now == before {
			break
		}
		if before = now; time.Now().After(deadline) {
			t.Fatal("the bridge never came to rest")
		}
	}
	const watched = 20 * time.Second
	time.Sleep(watched) // the silence under test
	if n := commands() - before; float64(n)/watched.Seconds() >= 1 {
		t.Errorf("%d commands in %v with nothing due, want fewer than one a second", n, watched)
	} else {
		t.Logf("%d commands in %v", n, watched)
	}
}

// commandsOfClients counts commands, but for what we ask here, and what Sentinels
// and a replica say all the time.
func commandsOfClients(t *testing.T, server *redis.Client) (n int64) {
	t.Helper()
	others := []string{"info"}
	if servertest.RedisLayout() == servers.Watched {
		others = append(others, "ping", "publish", "replconf")
	}
	info, err := server.InfoMap(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for name, stats := range info["Commandstats"] {
		if slices.Contains(others, strings.TrimPrefix(name, "cmdstat_")) {
			continue
		}
		calls, _, _ := strings.Cut(strings.TrimPrefix(stats, "calls="), ",")
		n += parseInt(t, calls)
	}
	return n
}
