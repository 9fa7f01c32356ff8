package redisbridge_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// newBenchWithRedis is newBench with a Redis of its own, and an operator's
// client for it, which gives up at the first refusal.
func newBenchWithRedis(t *testing.T, c topology.Config) (*bench, *redis.Client) {
	t.Helper()
	env := servertest.ForTest(t)
	env.RedisURL = servertest.RedisForTest(t).URL()
	options, err := redis.ParseURL(env.RedisURL)
	if err != nil {
		t.Fatal(err)
	}
	options.MaxRetries = -1
	operator := redis.NewClient(options)
	t.Cleanup(func() { _ = operator.Close() })
	b := newBenchAt(t, c, env)
	b.arrivals = listen(t, b.dial(t))
	return b, operator
}

// tryPark parks a message that is due in an hour.
func (b *bench) tryPark(t *testing.T, id string) error {
	t.Helper()
	_, err := b.park.Park(t.Context(), &message.Message{ID: id, RoutingKey: "order.unpaid"}, message.After(time.Hour))
	return err
}

func TestFullRedisLetsMessagesOut(t *testing.T) {
	t.Parallel()
	const n, delay, most = 200, 2 * time.Second, 10 * time.Second
	c := short()
	c.Tiers, c.Lead = c.Tiers[:2], time.Second
	b, operator := newBenchWithRedis(t, c)
	due := map[string]time.Time{}
	for i := range n {
		id := fmt.Sprintf("m-%d", i)
		due[id] = b.parkOne(t, id, message.After(delay+time.Duration(i)*10*time.Millisecond))
	}
	if err := operator.ConfigSet(t.Context(), "maxmemory", "1mb").Err(); err != nil {
		t.Fatal(err)
	}
	refused := func(when string) {
		t.Helper()
		if err := b.tryPark(t, "late"); !errors.Is(err, redisbridge.ErrFull) || errors.Is(err, redisbridge.ErrUnconfirmed) {
			t.Fatalf("park into a full Redis, %s: got %v, want ErrFull", when, err)
		}
	}
	refused("before the bridge starts")
	b.run(t, nil) // it is enough that others have filled it
	for id, list := range b.arrivals.await(t, n, patience) {
		got := list[0]
		if len(list) != 1 {
			t.Errorf("%s arrived %d times", id, len(list))
		}
		if late := got.at.Sub(due[id]); late < 0 || late > most {
			t.Errorf("%s arrived %v after it was due, want 0 to %v", id, late, most)
		}
	}
	refused("after all have arrived")
	if err := operator.ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	if err := b.tryPark(t, "late"); err != nil {
		t.Errorf("park once there is room again: %v", err)
	}
}

func TestRefusedForNowIsNotStored(t *testing.T) {
	t.Parallel()
	for code, state := range map[string]struct {
		enter, leave func(*testing.T, *redis.Client)
	}{
		"READONLY":   {replica("yes"), primary},
		"MASTERDOWN": {replica("no"), primary},
		"NOREPLICAS": {set("min-replicas-to-write", "1"), set("min-replicas-to-write", "0")},
		"BUSY":       {busy, killScript},
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			b, operator := newBenchWithRedis(t, short())
			b.run(t, nil)
			before := b.parkOne(t, "before", message.After(2500*time.Millisecond))
			state.enter(t, operator)
			err := b.tryPark(t, "refused")
			if err == nil || !strings.Contains(err.Error(), code) || errors.Is(err, redisbridge.ErrUnconfirmed) {
				t.Errorf("got %v, want %s, definitely", err, code)
			}
			for time.Now().Before(before) { // the bridge is refused too
				if err := b.tryPark(t, "refused"); err == nil {
					t.Fatal("parked meanwhile")
				}
			}
			state.leave(t, operator)
			held, err := redisbridge.Holds(t.Context(), operator, b.topology, "refused")
			if err != nil || held {
				t.Errorf("Redis holds the refused message: %v, %v", held, err)
			}
			if got := b.arrivals.await(t, 1, patience)["before"][0]; got.at.Before(before) {
				t.Errorf("%v early", before.Sub(got.at))
			}
		})
	}
}

func set(setting, value string) func(*testing.T, *redis.Client) {
	return func(t *testing.T, operator *redis.Client) {
		t.Helper()
		if err := operator.ConfigSet(t.Context(), setting, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// replica makes the server one of a primary that never answers, so that it
// keeps its data.
func replica(servesStaleData string) func(*testing.T, *redis.Client) {
	return func(t *testing.T, operator *redis.Client) {
		t.Helper()
		set("replica-serve-stale-data", servesStaleData)(t, operator)
		if err := operator.ReplicaOf(t.Context(), "127.0.0.1", "1").Err(); err != nil {
			t.Fatal(err)
		}
	}
}

func primary(t *testing.T, operator *redis.Client) {
	t.Helper()
	if err := operator.ReplicaOf(t.Context(), "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
}

// busy has a script run for ever, and returns when the server says so.
func busy(t *testing.T, operator *redis.Client) {
	t.Helper()
	set("busy-reply-threshold", "10")(t, operator)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = operator.Eval(t.Context(), "while true do end", nil).Err() // until it is killed
	}()
	t.Cleanup(func() { <-ended })
	awaitPing(t, operator, "BUSY")
}

func killScript(t *testing.T, operator *redis.Client) {
	t.Helper()
	if err := operator.Do(t.Context(), "SCRIPT", "KILL").Err(); err != nil {
		t.Fatal(err)
	}
	awaitPing(t, operator, "PONG") // the script notices a little later
}

// awaitPing returns when the server answers so.
func awaitPing(t *testing.T, operator *redis.Client, want string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		answer, err := operator.Ping(t.Context()).Result()
		if err != nil {
			answer = err.Error()
		}
		if strings.HasPrefix(answer, want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("ping answers %s, want %s", answer, want)
		}
	}
}
