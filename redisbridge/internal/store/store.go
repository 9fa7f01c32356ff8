// Package store is all that is kept in Redis: one method for each script. The scripts are in
// lua; the keys, the records and their codec in format; and server speaks with Redis servers,
// whatever they keep. No other package sees a key, a script or a raw answer.
package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/singleflight"

	"github.com/delaybridge/delaybridge/redisbridge/internal/store/format"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store/lua"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store/server"
	"github.com/delaybridge/delaybridge/topology"
)

// Config of a [Store]. What it means is said where callers set it: redisbridge.ParkConfig.
type Config struct {
	Client                       redis.UniversalClient
	Topology                     *topology.Topology
	Owner                        Owner
	Window, Remember, Tombstones time.Duration
	Quotas                       map[string]Quota // by entry
	WaitReplicas                 int
	// Installed reports whether RabbitMQ knows an installation. Nil does not ask it.
	Installed func(context.Context) bool
}

// Errors that callers branch on; redisbridge says what they mean.
var (
	ErrNotFound = errors.New("no message with this ID is known")
	ErrNewer    = format.ErrNewer
	ErrInvalid  = errors.New("invalid")
)

// What others than this package see of records.
type (
	// Record is format.Record.
	Record = format.Record
	// State is format.State.
	State = format.State
	// Beginning is format.Beginning.
	Beginning = format.Beginning
	// Stored is format.Stored.
	Stored = format.Stored
)

// The states of a record.
const (
	Waiting   = format.Waiting
	Cancelled = format.Cancelled
	Delivered = format.Delivered
	Moved     = format.Moved
)

// Store is what Redis has under the prefix of a topology. It may be used from many
// goroutines.
type Store struct {
	config   Config
	scripts  lua.Scripts
	leads    []any // TTLs of the lanes in ms, longest first
	batches  *batcher
	pool     *parkPool
	turn     sync.Mutex   // of a batch that asks whether there is room
	checked  atomic.Bool  // Redis holds the layout that the topology describes
	admitted atomic.Int64 // when what is here was last seen not to be refused, Unix ns
	looking  singleflight.Group

	view        atomic.Pointer[view]
	seeing      sync.Mutex
	generations map[int][]*Shard // guarded by seeing
}

// New does no I/O.
func New(c Config) *Store {
	s := &Store{config: c, scripts: lua.New(), batches: &batcher{}, pool: &parkPool{}, generations: map[int][]*Shard{}}
	for _, lead := range slices.Backward(c.Topology.Leads()) {
		s.leads = append(s.leads, lead.Milliseconds())
	}
	s.see(Layout{Version: freshVersion, Shards: c.Topology.Shards()}) // until Redis has said what there is
	s.batches.send = s.parkBatch
	return s
}

// Check makes sure, once, that Redis holds the layout that the topology describes. Methods
// that need it call it themselves.
func (s *Store) Check(ctx context.Context) error {
	if s.checked.Load() {
		return nil
	}
	if err := s.CheckLayout(ctx); err != nil {
		return err
	}
	s.checked.Store(true)
	return nil
}

// replicasWithin is how long a call waits for replicas: less than the client's time limit by default, so
// that Redis' answer is heard.
const replicasWithin = time.Second

// eachNode has call send a command for each of some shards, in one pipeline for all that are on a node. Each
// command has its own error, or that of the whole. It returns for which shards too few replicas have what
// was written; see redisbridge.ParkConfig.WaitReplicas.
func (s *Store) eachNode(ctx context.Context, shards []*Shard, call func(redis.Pipeliner, *Shard)) map[*Shard]error {
	if s.config.WaitReplicas == 0 {
		_, _ = s.config.Client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for _, shard := range shards {
				call(pipe, shard)
			}
			return nil
		})
		return nil
	}
	on := map[redis.Cmdable][]*Shard{} // by node
	for _, shard := range shards {
		node := s.nodeOf(ctx, shard.keys.State)
		on[node] = append(on[node], shard)
	}
	unreplicated := map[*Shard]error{}
	var mu sync.Mutex
	var nodes sync.WaitGroup
	for node, shards := range on {
		nodes.Go(func() {
			err := s.replicated(ctx, node, shards[0].keys, func(pipe redis.Pipeliner) {
				for _, shard := range shards {
					call(pipe, shard)
				}
			})
			mu.Lock()
			defer mu.Unlock()
			for _, shard := range shards {
				unreplicated[shard] = err
			}
		})
	}
	nodes.Wait()
	return unreplicated
}

// run is eachNode for one script of a shard, which is sent along where the node may not know it.
func (s *Store) run(ctx context.Context, k format.ShardKeys, script *redis.Script, keys []string, args ...any) (answer *redis.Cmd, unreplicated error) {
	if s.config.WaitReplicas == 0 {
		return script.Run(ctx, s.config.Client, keys, args...), nil
	}
	unreplicated = s.replicated(ctx, s.nodeOf(ctx, k.State), k, func(pipe redis.Pipeliner) {
		answer = script.Eval(ctx, pipe, keys, args...)
	})
	if cluster, is := s.config.Client.(*redis.ClusterClient); is && redis.HasErrorPrefix(answer.Err(), "MOVED") {
		cluster.ReloadState(ctx) // later: this call follows the answer
		answer = script.Run(ctx, cluster, keys, args...)
		unreplicated = fmt.Errorf("%w: the shard has moved to another node, whose replicas were not asked", server.ErrUnconfirmed)
	}
	return answer, unreplicated
}

// nodeOf returns the client of the node that has a key: the one that replicas are asked of.
func (s *Store) nodeOf(ctx context.Context, key string) redis.Cmdable {
	if cluster, is := s.config.Client.(*redis.ClusterClient); is {
		if node, err := cluster.MasterForKey(ctx, key); err == nil {
			return node
		}
	}
	return s.config.Client
}

// replicated sends commands to a node that has the shard of k, and returns an error unless enough of its replicas
// have what they wrote, or what was there before.
func (s *Store) replicated(ctx context.Context, node redis.Cmdable, k format.ShardKeys, send func(redis.Pipeliner)) error {
	if _, is := node.(*redis.ClusterClient); is { // it has no such node now, and sends WAIT to any
		_, _ = node.Pipelined(ctx, func(pipe redis.Pipeliner) error { send(pipe); return nil })
		return fmt.Errorf("%w: the cluster has no node now whose replicas could be asked", server.ErrUnconfirmed)
	}
	var wait *redis.Cmd
	_, _ = node.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		send(pipe)
		// WAIT is about the writes of its own connection, and a message that waits already is not written again.
		pipe.HIncrBy(ctx, k.State, "waits", 1)
		wait = pipe.Do(ctx, "WAIT", s.config.WaitReplicas, replicasWithin.Milliseconds())
		return nil
	})
	switch n, err := wait.Int(); {
	case redis.HasErrorPrefix(err, "NOPERM"):
		return fmt.Errorf("%w: permit the user the command WAIT, or set redis-wait-replicas to 0: %w", server.ErrConfiguration, err)
	case err != nil:
		return fmt.Errorf("%w: whether replicas have it is unknown: %w", server.ErrUnconfirmed, err)
	case n < s.config.WaitReplicas:
		return fmt.Errorf("%w: after %v, %d replicas have it, of %d that redis-wait-replicas asks for", server.ErrUnconfirmed, replicasWithin, n, s.config.WaitReplicas)
	}
	return nil
}

// Clock is Redis' clock, as far as the answers for a shard have told: each may be another server's.
func (s *Store) Clock(shard *Shard) *server.Clock { return shard.clock }

// Now returns what Redis' clock shows: that of the node of shard 0 in a cluster.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	us, err := s.readClock(ctx, s.view.Load().shards[0])
	return time.UnixMicro(us), err
}

// ReadClock asks Redis for the clock of a shard, which [Store.Clock] then knows better.
func (s *Store) ReadClock(ctx context.Context, shard *Shard) error {
	asked := time.Now()
	us, err := s.readClock(ctx, shard)
	if err == nil {
		shard.clock.Learn(asked, time.Now(), us)
	}
	return err
}

func (s *Store) readClock(ctx context.Context, shard *Shard) (us int64, err error) {
	us, err = s.scripts.Clock.RunRO(ctx, s.config.Client, []string{shard.keys.State}).Int64()
	return us, server.ClassifyRead(err)
}

// InstantOf returns the instant of a Unix time in ms; zero for 0.
func InstantOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// ScriptNames returns the names of the Lua scripts by their hashes, by which EVALSHA and
// EVALSHA_RO call them: for those who observe a client.
func ScriptNames() map[string]string {
	s := lua.New()
	names := map[string]string{}
	for name, script := range map[string]*redis.Script{
		"park": s.Park, "cancel": s.Cancel, "reschedule": s.Reschedule,
		"arrive": s.Arrive, "repark": s.Repark, "claim": s.Claim, "settle": s.Settle, "postpone": s.Postpone,
		"yield": s.Yield, "attend": s.Attend, "beat": s.Beat, "clock": s.Clock, "look": s.Look, "list": s.List, "count": s.Count,
		"tally": s.Tally, "glance": s.Glance, "sweep": s.Sweep, "erase": s.Erase,
		"take": s.Take, "implant": s.Implant, "drop": s.Drop, "close": s.Shut, "reshard": s.Reshard,
	} {
		names[script.Hash()] = name
	}
	return names
}

// reply reads a script's array answer field by field. After the first surprise
// it returns zero values and keeps the fault.
type reply struct {
	rest []any
	err  error
}

func (r *reply) next() any {
	if len(r.rest) == 0 {
		r.fail("ends too early")
		return nil
	}
	v := r.rest[0]
	r.rest = r.rest[1:]
	return v
}

func (r *reply) int() int64 {
	v := r.next()
	n, ok := v.(int64)
	if !ok {
		r.fail("%T where a number belongs", v)
	}
	return n
}

func (r *reply) string() string {
	v := r.next()
	s, ok := v.(string)
	if !ok {
		r.fail("%T where a string belongs", v)
	}
	return s
}

func (r *reply) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("redisbridge: answer of a script: "+format, args...)
	}
}
