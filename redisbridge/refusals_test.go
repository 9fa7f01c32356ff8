package redisbridge_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// newBenchWithRedis is newBench with a Redis of its own, and its operator.
func newBenchWithRedis(t *testing.T, c topology.Config) (*bench, operator) {
	t.Helper()
	env := servertest.ForTest(t)
	env.RedisURL = servertest.RedisForTest(t).URL()
	b := newBenchAt(t, c, env)
	b.arrivals = listen(t, b.dial(t))
	return b, servertest.Primaries(t, env.RedisURL)
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
	operator.set(t, "maxmemory", "1mb")
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
	operator.set(t, "maxmemory", "0")
	if err := b.tryPark(t, "late"); err != nil {
		t.Errorf("park once there is room again: %v", err)
	}
}

// A refusal is a state in which a server refuses for now.
type refusal struct {
	enter, leave func(*testing.T, *bench, operator)
}

// refusals are those that there are in the layout under test, by the answer. In a
// Redis Cluster there is no REPLICAOF: a replica sends clients away (MOVED).
func refusals() map[string]refusal {
	all := map[string]refusal{
		"NOREPLICAS": {set("min-replicas-to-write", "2"), set("min-replicas-to-write", "0")},
		"BUSY":       {busy, killScript},
	}
	if servertest.RedisLayout() == servers.Clustered {
		all["CLUSTERDOWN"] = refusal{disown, own}
		all["TRYAGAIN"] = refusal{beginMigration, endMigration}
	} else {
		all["READONLY"] = refusal{replica("yes"), primary}
		all["MASTERDOWN"] = refusal{replica("no"), primary}
	}
	return all
}

func TestRefusedForNowIsNotStored(t *testing.T) {
	t.Parallel()
	for code, state := range refusals() {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			b, operator := newBenchWithRedis(t, short())
			b.run(t, nil)
			before := b.parkOne(t, "before", message.After(2500*time.Millisecond))
			id := b.besides("before")
			until(t, "the shard is owned", func() bool { return len(keysLike(t, b.RedisURL, "*:state")) == b.topology.Shards() })
			state.enter(t, b, operator)
			err := b.tryPark(t, id)
			if err == nil || !strings.Contains(err.Error(), code) || errors.Is(err, redisbridge.ErrUnconfirmed) {
				t.Errorf("got %v, want %s, definitely", err, code)
			}
			for time.Now().Before(before) { // the bridge is refused too
				if err := b.tryPark(t, id); err == nil {
					t.Fatal("parked meanwhile")
				}
			}
			state.leave(t, b, operator)
			held, err := redisbridge.Holds(t.Context(), b.client, b.topology, id)
			if err != nil || held {
				t.Errorf("Redis holds the refused message: %v, %v", held, err)
			}
			if got := b.arrivals.await(t, 1, patience)["before"][0]; got.at.Before(before) {
				t.Errorf("%v early", before.Sub(got.at))
			}
		})
	}
}

// besides returns an ID that is kept beside another one: in the same shard, and
// its envelope in the same hash.
func (b *bench) besides(other string) string {
	for i := 0; ; i++ {
		if id := fmt.Sprintf("%s-%d", other, i); redisbridge.EnvelopesOf(b.topology, id) == redisbridge.EnvelopesOf(b.topology, other) {
			return id
		}
	}
}

func set(setting, value string) func(*testing.T, *bench, operator) {
	return func(t *testing.T, _ *bench, operator operator) {
		t.Helper()
		operator.set(t, setting, value)
	}
}

// replica makes the server one of a primary that never answers, so that it
// keeps its data.
func replica(servesStaleData string) func(*testing.T, *bench, operator) {
	return func(t *testing.T, _ *bench, operator operator) {
		t.Helper()
		operator.set(t, "replica-serve-stale-data", servesStaleData)
		operator.do(t, "REPLICAOF", "127.0.0.1", "1")
	}
}

func primary(t *testing.T, _ *bench, operator operator) {
	t.Helper()
	operator.do(t, "REPLICAOF", "NO", "ONE")
}

// busy has a script run for ever, and returns when the server says so.
func busy(t *testing.T, _ *bench, operator operator) {
	t.Helper()
	operator.set(t, "busy-reply-threshold", "10")
	var ended sync.WaitGroup
	for _, server := range operator {
		ended.Go(func() {
			_ = server.Eval(t.Context(), "while true do end", nil).Err() // until it is killed
		})
	}
	t.Cleanup(ended.Wait)
	operator.awaitPing(t, "BUSY")
}

func killScript(t *testing.T, _ *bench, operator operator) {
	t.Helper()
	operator.do(t, "SCRIPT", "KILL")
	operator.awaitPing(t, "PONG") // the script notices a little later
}
