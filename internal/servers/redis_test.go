package servers_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/servers/redisserver"
)

// startRedis starts a server for one test and connects to it.
func startRedis(t *testing.T) (*redisserver.Node, *redis.Client) {
	t.Helper()
	r, err := servers.StartRedis(t.Context(), servers.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	options, err := redis.ParseURL(r.URL())
	if err != nil {
		t.Fatal(err)
	}
	options.MaxRetries, options.ReadTimeout = -1, time.Second
	client := redis.NewClient(options)
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return r, client
}

func TestRedisKeepsWritesThroughKillAndRestart(t *testing.T) {
	t.Parallel()
	r, client := startRedis(t)
	if err := client.Set(t.Context(), "order", "42", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := r.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Fatal("a killed server answers")
	}
	if err := r.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := client.Get(t.Context(), "order").Result(); err != nil || got != "42" {
		t.Fatalf("got %q (%v), want the write back", got, err)
	}
}

func TestRedisWithAnotherClock(t *testing.T) {
	t.Parallel()
	const behind = time.Hour
	r, err := servers.StartRedis(t.Context(), servers.Config{Choice: servers.Packages, RedisAhead: -behind})
	if err != nil {
		t.Fatal(err)
	}
	least, most, err := r.Ahead(t.Context())
	if err != nil || least > -behind || most < -behind-time.Second {
		t.Errorf("ahead by %v to %v (%v), want an hour behind", least, most, err)
	}
	if err := r.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestRedisPausedAnswersAgainAfterResume(t *testing.T) {
	t.Parallel()
	r, client := startRedis(t)
	if err := r.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Fatal("a paused server answers")
	}
	if err := r.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestRedisRunsWithTheShippedSettings(t *testing.T) {
	t.Parallel()
	_, client := startRedis(t)
	for setting, want := range map[string]string{
		"appendonly":                "yes",
		"appendfsync":               "always",
		"maxmemory-policy":          "noeviction",
		"hash-max-listpack-value":   "4096",
		"zset-max-listpack-entries": "128",
	} {
		got, err := client.ConfigGet(t.Context(), setting).Result()
		if err != nil || got[setting] != want {
			t.Errorf("%s is %q (%v), want %q", setting, got[setting], err, want)
		}
	}
}
