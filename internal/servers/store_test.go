package servers_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/servers/redisserver"
)

// startStore starts Redis in a layout for one test, and connects to it.
func startStore(t *testing.T, layout servers.Layout) (*redisserver.Store, redis.UniversalClient) {
	t.Helper()
	s, err := servers.StartStore(t.Context(), servers.Config{RedisLayout: layout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	var client redis.UniversalClient
	if layout == servers.Clustered {
		options, err := redis.ParseClusterURL(s.URL())
		if err != nil {
			t.Fatal(err)
		}
		client = redis.NewClusterClient(options)
	} else {
		options, err := redis.ParseFailoverURL(s.URL())
		if err != nil {
			t.Fatal(err)
		}
		client = redis.NewFailoverClient(options)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, client
}

// patience is for what has no reason to take long, on a machine that may have.
const patience = time.Minute

// eventually waits until there is no error any more.
func eventually(t *testing.T, probe func() error) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(patience); ; {
		err := probe()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %v: %v", patience, err)
		}
	}
}

func TestStoreKeepsWritesThroughKillAndRestart(t *testing.T) {
	t.Parallel()
	for _, layout := range []servers.Layout{servers.Clustered, servers.Watched} {
		t.Run(string(layout), func(t *testing.T) {
			t.Parallel()
			s, client := startStore(t, layout)
			keys := []string{"a", "b", "c", "d", "e", "f"} // in slots of all three masters
			for _, key := range keys {
				if err := client.Set(t.Context(), key, "kept", 0).Err(); err != nil {
					t.Fatal(err)
				}
			}
			before, err := s.Primaries(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Kill(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := client.Get(t.Context(), keys[0]).Err(); err == nil {
				t.Error("a killed store answers")
			}
			if err := s.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, key := range keys {
				eventually(t, func() error { return client.Get(t.Context(), key).Err() })
			}
			if after, err := s.Primaries(t.Context()); err != nil || len(after) != len(before) || after[0] != before[0] {
				t.Errorf("other primaries than before (%v)", err)
			}
		})
	}
}

func TestStoreRunsWithTheShippedSettings(t *testing.T) {
	t.Parallel()
	s, client := startStore(t, servers.Clustered)
	err := client.(*redis.ClusterClient).ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
		found, err := node.ConfigGet(ctx, "appendfsync").Result()
		if err == nil && found["appendfsync"] != "always" {
			t.Errorf("%v: appendfsync is %q, want always", node, found["appendfsync"])
		}
		return err
	})
	if err != nil || len(s.Nodes()) != 3 {
		t.Errorf("%d nodes (%v), want 3", len(s.Nodes()), err)
	}
}

func TestSentinelPromotesTheReplica(t *testing.T) {
	t.Parallel()
	s, client := startStore(t, servers.Watched)
	primary, err := s.Primaries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := primary[0].Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { return client.Set(t.Context(), "order", "42", 0).Err() })
	var promoted []*redisserver.Node
	eventually(t, func() error {
		var err error
		promoted, err = s.Primaries(t.Context())
		return err
	})
	if promoted[0] == primary[0] {
		t.Fatal("the primary is the one that was killed")
	}
	// What was promoted stays it, also when all is started anew.
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { return client.Get(t.Context(), "order").Err() })
	if again, err := s.Primaries(t.Context()); err != nil || again[0] != promoted[0] {
		t.Errorf("the primary is another one after a restart (%v)", err)
	}
}

func TestUnknownLayoutsAreNamed(t *testing.T) {
	t.Parallel()
	_, err := servers.Start(t.Context(), servers.Config{RedisLayout: "ring", RabbitMQLayout: servers.Watched})
	for _, want := range []string{`DELAYBRIDGE_REDIS_LAYOUT="ring"`, `DELAYBRIDGE_RABBITMQ_LAYOUT="sentinel"`, "single cluster"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error that says %s", err, want)
		}
	}
}
