package redisbridge_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/servers/redisserver"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// traffic parks messages that are due within seconds, while a bridge promotes
// them, and keeps what the caller was told.
type traffic struct {
	*bench
	answers
	dues dueTimes
	stop func()
}

// publishers park side by side, each one message at a time.
const publishers = 16

// newTraffic parks for as many replicas of the store as waitReplicas says.
func newTraffic(t *testing.T, store *redisserver.Store, waitReplicas int) *traffic {
	t.Helper()
	env := servertest.ForTest(t)
	env.RedisURL = store.URL()
	// Enough shards that each node of a cluster has some.
	c := topology.Config{Tiers: []time.Duration{500 * time.Millisecond, time.Second}, Lead: time.Second, Shards: 8}
	r := &traffic{bench: newBenchAt(t, c, env), dues: dueTimes{at: map[string]time.Time{}}}
	r.arrivals = listen(t, r.dial(t))
	r.run(t, nil)
	r.park = r.waiting(t, waitReplicas)
	r.stop = r.keepParking(t, publishers, r.parkSoon)
	t.Cleanup(r.stop)
	return r
}

func (r *traffic) parkSoon(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	in := message.After(time.Duration(200+rand.IntN(3000)) * time.Millisecond)
	ticket, err := r.park.Park(ctx, &message.Message{ID: id, RoutingKey: "order.unpaid"}, in)
	if err == nil && ticket.Parking == message.Overdue {
		return errOverdue
	}
	if err == nil {
		r.dues.note(id, ticket.Due)
	}
	return err
}

var errParked = errors.New("messages are parked")

// errOverdue is for what was not parked, as it was due before its turn came.
var errOverdue = errors.New("overdue")

// settled waits until Redis holds nothing any more: what has not arrived by then
// never will. It returns those messages in question that are lost, after
// it has compared all else with what was told.
func (r *traffic) settled(t *testing.T, inQuestion func(id string) bool) (lost []string) {
	t.Helper()
	operator := operator(servertest.Primaries(t, r.RedisURL))
	defer func() {
		if t.Failed() {
			stats, err := r.park.Stats(t.Context(), redisbridge.StatsOptions{Exact: true})
			t.Logf("in Redis: %+v, %v", stats, err)
			faults, miscounts, err := r.park.Verify(t.Context())
			t.Logf("verify: %q, %q, %v", faults, miscounts, err)
		}
	}()
	until(t, "nothing is parked", func() bool {
		return operator.each(t, func(server *redis.Client) error {
			if keys, err := server.Keys(t.Context(), "*:env:*").Result(); err != nil || len(keys) > 0 {
				return errors.Join(err, errParked)
			}
			return nil
		}) == nil
	})
	told := r.all()
	until(t, "what was promoted last arrives", func() bool {
		all := r.arrivals.first()
		for id, err := range told {
			if _, came := all[id]; err == nil && !came && !inQuestion(id) {
				return false
			}
		}
		return true
	})
	unconfirmed, refused := 0, 0
	all := r.arrivals.first()
	for id, err := range told {
		got, came := all[id]
		switch {
		case err == nil && !came:
			lost = append(lost, id)
		case err == nil && got.at.Before(r.dues.at[id]):
			t.Errorf("%s arrived %v early", id, r.dues.at[id].Sub(got.at))
		case errors.Is(err, redisbridge.ErrUnconfirmed):
			unconfirmed++
		case err != nil:
			if refused++; came {
				t.Errorf("%s arrived, though the answer was: %v", id, err)
			}
		}
	}
	t.Logf("%d asked for, %d unconfirmed, %d refused, %d arrived, %d lost", len(told), unconfirmed, refused, len(all), len(lost))
	return lost
}

// first returns the first arrival of each message.
func (a *arrivals) first() map[string]arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make(map[string]arrival, len(a.byID))
	for id, list := range a.byID {
		all[id] = list[0]
	}
	return all
}

func never(string) bool { return false }

// What a Redis Cluster has confirmed is on the disk of one of its masters. While
// that one is down nobody else can have its messages, and it comes back with all.
func TestClusterMasterKilledUnderLoad(t *testing.T) {
	t.Parallel()
	store := servertest.RedisForTest(t, servers.Clustered)
	r := newTraffic(t, store, 0)
	for _, master := range store.Nodes() {
		r.await(t, 1+rand.IntN(500), "stored", isNil)
		if err := master.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.await(t, 1, "refused", func(err error) bool { return errors.Is(err, redisbridge.ErrUnreachable) })
		if err := master.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	r.await(t, 500, "stored", isNil)
	r.stop()
	if lost := r.settled(t, never); len(lost) > 0 {
		t.Errorf("%d messages are lost", len(lost))
	}
}

// Slots move to other nodes, key by key, as with redis-cli --cluster reshard.
func TestSlotsMoveUnderLoad(t *testing.T) {
	t.Parallel()
	store := servertest.RedisForTest(t, servers.Clustered)
	r := newTraffic(t, store, 0)
	operator := operator(servertest.Primaries(t, store.URL()))
	for _, o := range r.slotOwners(t, operator) {
		r.await(t, 100, "stored", isNil)
		for _, target := range operator {
			if target.Options().Addr != o.Options().Addr {
				o.moveTo(t, target, operator)
				break
			}
		}
	}
	r.await(t, 500, "stored", isNil)
	r.stop()
	if lost := r.settled(t, never); len(lost) > 0 {
		t.Errorf("%d messages are lost", len(lost))
	}
}

// Sentinel promotes a replica that has what the primary had sent it by then.
// Nothing of that is lost, nor of what is parked afterwards. What the primary
// had confirmed and not yet sent is lost: the test says how much.
func TestSentinelFailoverUnderLoad(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cutOff      bool // the replica, for a while before the primary dies
		minReplicas string
		least, most int // messages lost

		waitReplicas int
	}{
		"replica follows": {minReplicas: "0", most: math.MaxInt},
		"replica cut off": {cutOff: true, minReplicas: "0", least: 1, most: math.MaxInt},
		// Those apart that were confirmed until the primary missed its replica, what was under way.
		"replica cut off, min-replicas-to-write": {cutOff: true, minReplicas: "1", most: publishers},
		"replica cut off, WaitReplicas":          {cutOff: true, minReplicas: "0", waitReplicas: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := servertest.RedisForTest(t, servers.Watched)
			first, second := store.Nodes()[0], store.Nodes()[1]
			primary, replica := servertest.Primaries(t, first.URL()), servertest.Primaries(t, second.URL())
			for _, server := range []operator{primary, replica} {
				server.set(t, "min-replicas-to-write", tc.minReplicas)
			}
			r := newTraffic(t, store, tc.waitReplicas)
			r.await(t, 500+rand.IntN(500), "stored", isNil)
			replicated := r.all()
			waitForReplica(t, primary[0])
			var missed map[string]error // what was told until the primary missed its replica
			if tc.cutOff {
				operator(replica).do(t, "REPLICAOF", "127.0.0.1", "1")
				switch {
				case tc.least > 0:
					r.await(t, 200, "stored", isNil)
				case tc.waitReplicas > 0: // those in flight, too: they are told a second later
					r.await(t, 2*publishers, "unconfirmed", func(err error) bool { return errors.Is(err, redisbridge.ErrUnconfirmed) })
				default:
					until(t, "the primary misses its replica", func() bool {
						info, err := primary[0].InfoMap(t.Context(), "replication").Result()
						return err == nil && info["Replication"]["connected_slaves"] == "0"
					})
					missed = r.all()
					r.await(t, 200, "refused", func(err error) bool { return err != nil })
				}
			}
			if err := first.Kill(t.Context()); err != nil {
				t.Fatal(err)
			}
			until(t, "the replica is promoted", func() bool {
				at, err := store.Primaries(t.Context())
				return err == nil && at[0] == second
			})
			before := r.all() // by now, who was answered by the first has noted it
			if err := first.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			r.await(t, 500, "stored", isNil)
			r.stop()
			inQuestion := func(id string) bool {
				_, toldBefore := before[id]
				err, toldEarlier := replicated[id]
				return toldBefore && (!toldEarlier || err != nil)
			}
			lost := slices.DeleteFunc(r.settled(t, inQuestion), func(id string) bool {
				_, told := missed[id]
				return told
			})
			if len(lost) < tc.least || len(lost) > tc.most {
				t.Errorf("%d messages are lost, want %d to %d", len(lost), tc.least, tc.most)
			}
		})
	}
}

// waiting returns a park that waits for replicas.
func (b *bench) waiting(t testing.TB, replicas int) *redisbridge.Park {
	t.Helper()
	park, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: b.client, Topology: b.topology, WaitReplicas: replicas})
	if err != nil {
		t.Fatal(err)
	}
	return park
}

// Without so many replicas nothing is confirmed, though the primary has it, and says so.
func TestParkWaitsForReplicas(t *testing.T) {
	t.Parallel()
	b := newBench(t, topology.Config{})
	const many = 5 // more than there are anywhere
	park := b.waiting(t, many)
	unconfirmed := func(err error) {
		t.Helper()
		if !errors.Is(err, redisbridge.ErrUnconfirmed) || !strings.Contains(err.Error(), "replicas have it, of 5 that redis-wait-replicas asks for") {
			t.Errorf("got %v", err)
		}
	}
	for range 2 { // a repetition writes nothing, and is confirmed no sooner
		_, err := park.Park(t.Context(), &message.Message{ID: "o-1"}, message.After(time.Hour))
		unconfirmed(err)
	}
	if ticket, err := park.Park(t.Context(), &message.Message{ID: "o-2"}, message.At(time.Now().Add(-time.Hour))); err != nil || ticket.Parking != message.Overdue {
		t.Errorf("what is not stored: got %+v, %v", ticket, err)
	}
	if status, err := b.park.Get(t.Context(), "o-1"); err != nil || status.State != redisbridge.StateParked {
		t.Errorf("got %+v, %v", status, err)
	}
	_, err := park.Cancel(t.Context(), "o-1")
	unconfirmed(err)
	if change, err := b.park.Cancel(t.Context(), "o-1"); err != nil || change.Outcome != redisbridge.OutcomeCancelledBefore {
		t.Errorf("got %+v, %v", change, err)
	}
}

// BenchmarkParkWaitsForReplicas compares parking with and without, from many goroutines at a time.
func BenchmarkParkWaitsForReplicas(b *testing.B) {
	store := servertest.RedisForTest(b, servers.Watched)
	top, err := topology.New(topology.Config{})
	if err != nil {
		b.Fatal(err)
	}
	client, err := redisbridge.NewClient(store.URL())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = client.Close() })
	for _, replicas := range []int{0, 1} {
		for _, parallel := range []int{1, 64} {
			b.Run(fmt.Sprintf("%d replicas, %d at a time", replicas, parallel), func(b *testing.B) {
				park := (&bench{client: client, topology: top}).waiting(b, replicas)
				b.SetParallelism(parallel)
				b.RunParallel(func(loop *testing.PB) {
					for loop.Next() {
						if _, err := park.Park(b.Context(), &message.Message{ID: strconv.FormatUint(rand.Uint64(), 16), RoutingKey: "k", Body: make([]byte, 256)}, message.After(time.Hour)); err != nil {
							b.Error(err)
						}
					}
				})
			})
		}
	}
}

// waitForReplica returns when the replica has all that was written until now.
func waitForReplica(t *testing.T, primary *redis.Client) {
	t.Helper()
	conn := primary.Conn() // WAIT is about the writes of its own connection
	defer conn.Close()
	if err := conn.Set(t.Context(), "fence", "", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Wait(t.Context(), 1, patience).Result(); err != nil || n != 1 {
		t.Fatalf("%d replicas have all (%v), want 1", n, err)
	}
}
