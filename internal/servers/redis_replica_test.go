package servers_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// awaitValue waits until a key has reached a server.
func awaitValue(t *testing.T, c *redis.Client, key, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		got, err := c.Get(ctx, key).Result()
		if got == want {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s is %q (%v), want %q", key, got, err, want)
		}
	}
}

// set writes a key and fails the test when that is refused.
func set(t *testing.T, c *redis.Client, key, value string) {
	t.Helper()
	if err := c.Set(t.Context(), key, value, 0).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestRedisReplicaHoldsWhatThePrimaryHeld(t *testing.T) {
	t.Parallel()
	// The primary is stopped first.
	replica, copied := startRedis(t)
	primary, original := startRedis(t)
	set(t, original, "order", "42")
	set(t, copied, "stale", "1")
	if err := replica.Replicate(t.Context(), primary); err != nil {
		t.Fatal(err)
	}
	if got, err := copied.Get(t.Context(), "order").Result(); got != "42" {
		t.Errorf("the replica has order %q (%v), want 42", got, err)
	}
	if err := copied.Get(t.Context(), "stale").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("the replica keeps what its primary does not have (%v)", err)
	}
	set(t, original, "order", "43")
	awaitValue(t, copied, "order", "43")

	if err := copied.Set(t.Context(), "order", "44", 0).Err(); err == nil || !strings.HasPrefix(err.Error(), "READONLY") {
		t.Errorf("a replica answers a write with %v, want READONLY", err)
	}
	if err := replica.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	set(t, copied, "order", "44")
	if got, err := original.Get(t.Context(), "order").Result(); got != "43" {
		t.Errorf("the primary has order %q (%v), want 43: it was not told", got, err)
	}
}

func TestRedisFailOverExchangesRoles(t *testing.T) {
	t.Parallel()
	first, one := startRedis(t)
	second, two := startRedis(t)
	if err := second.Replicate(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	set(t, one, "order", "42")
	if err := first.FailOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := two.Get(t.Context(), "order").Result(); got != "42" {
		t.Errorf("the new primary has order %q (%v), want 42", got, err)
	}
	if err := one.Set(t.Context(), "order", "43", 0).Err(); err == nil || !strings.HasPrefix(err.Error(), "READONLY") {
		t.Errorf("the old primary answers a write with %v, want READONLY", err)
	}
	set(t, two, "order", "44")
	awaitValue(t, one, "order", "44")

	// A restarted container comes back with another address.
	if err := second.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	set(t, two, "order", "45")
	awaitValue(t, one, "order", "45")

	third, three := startRedis(t)
	if err := third.Replicate(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	awaitValue(t, three, "order", "45")
}

func TestRedisFailOverNeedsAReplica(t *testing.T) {
	t.Parallel()
	alone, _ := startRedis(t)
	if err := alone.FailOver(t.Context()); err == nil {
		t.Error("a server without a replica has failed over")
	}
}
