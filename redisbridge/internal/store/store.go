// Package store is all that is kept in Redis: the keys, the records and their codec, and one
// method for each script, which lies in lua. No other package sees a key, a script or a raw
// answer.
package store

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/singleflight"

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

// Store is what Redis has under the prefix of a topology. It may be used from many
// goroutines.
type Store struct {
	config   Config
	scripts  scripts
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
	s := &Store{config: c, scripts: newScripts(), batches: &batcher{}, pool: &parkPool{}, generations: map[int][]*Shard{}}
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
		node := s.nodeOf(ctx, shard.keys.state)
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
func (s *Store) run(ctx context.Context, k shardKeys, script *redis.Script, keys []string, args ...any) (answer *redis.Cmd, unreplicated error) {
	if s.config.WaitReplicas == 0 {
		return script.Run(ctx, s.config.Client, keys, args...), nil
	}
	unreplicated = s.replicated(ctx, s.nodeOf(ctx, k.state), k, func(pipe redis.Pipeliner) {
		answer = script.Eval(ctx, pipe, keys, args...)
	})
	if cluster, is := s.config.Client.(*redis.ClusterClient); is && redis.HasErrorPrefix(answer.Err(), "MOVED") {
		cluster.ReloadState(ctx) // later: this call follows the answer
		answer = script.Run(ctx, cluster, keys, args...)
		unreplicated = fmt.Errorf("%w: the shard has moved to another node, whose replicas were not asked", ErrUnconfirmed)
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
func (s *Store) replicated(ctx context.Context, node redis.Cmdable, k shardKeys, send func(redis.Pipeliner)) error {
	if _, is := node.(*redis.ClusterClient); is { // it has no such node now, and sends WAIT to any
		_, _ = node.Pipelined(ctx, func(pipe redis.Pipeliner) error { send(pipe); return nil })
		return fmt.Errorf("%w: the cluster has no node now whose replicas could be asked", ErrUnconfirmed)
	}
	var wait *redis.Cmd
	_, _ = node.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		send(pipe)
		// WAIT is about the writes of its own connection, and a message that waits already is not written again.
		pipe.HIncrBy(ctx, k.state, "waits", 1)
		wait = pipe.Do(ctx, "WAIT", s.config.WaitReplicas, replicasWithin.Milliseconds())
		return nil
	})
	switch n, err := wait.Int(); {
	case redis.HasErrorPrefix(err, "NOPERM"):
		return fmt.Errorf("%w: permit the user the command WAIT, or set redis-wait-replicas to 0: %w", ErrConfiguration, err)
	case err != nil:
		return fmt.Errorf("%w: whether replicas have it is unknown: %w", ErrUnconfirmed, err)
	case n < s.config.WaitReplicas:
		return fmt.Errorf("%w: after %v, %d replicas have it, of %d that redis-wait-replicas asks for", ErrUnconfirmed, replicasWithin, n, s.config.WaitReplicas)
	}
	return nil
}

// Clock is Redis' clock, as far as the answers for a shard have told: each may be another server's.
func (s *Store) Clock(shard *Shard) *Clock { return shard.clock }

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
	us, err = s.scripts.clock.RunRO(ctx, s.config.Client, []string{shard.keys.state}).Int64()
	return us, classifyRead(err)
}

// unixMS is 0 for the zero instant.
func unixMS(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// InstantOf returns the instant of a Unix time in ms; zero for 0.
func InstantOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

const (
	// clockAge is how long after the last reading of Redis' clock it counts as known.
	clockAge = 2 * time.Second
	// clockDrift is how fast two clocks may part: one of them being slewed by as
	// much as adjtimex(2) allows.
	clockDrift = 500e-6
)

// A Clock bounds what Redis' clock shows at an instant of this process, from
// the answers of scripts that have read it. With appendfsync always an answer
// waits for the disk, at times for long; so the best of several answers tells
// much more than the last. Only time that has passed here is counted: what this
// machine's clock shows plays no part.
type Clock struct {
	mu     sync.Mutex
	origin time.Time
	// The difference between Redis' clock and the time that has passed since origin is
	// between these at the instant heard, and farther from them by the drift at any other.
	least, most time.Duration
	heard       time.Time
}

// NewClock returns one of which nothing is known.
func NewClock() *Clock { return &Clock{origin: time.Now()} }

// Learn takes a reading, in Unix microseconds. Compared to when it was asked for, the
// difference is never less than the true one; compared to when it was heard, never more.
func (c *Clock) Learn(asked, heard time.Time, readUS int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	read := time.Duration(readUS) * time.Microsecond // rounded down
	drift := driftIn(heard.Sub(asked))
	least, most := read-heard.Sub(c.origin)-drift, read+time.Microsecond-asked.Sub(c.origin)+drift
	if heard.Sub(c.heard) <= clockAge {
		before := driftIn(heard.Sub(c.heard))
		// If both cannot be true, Redis' clock was set.
		if c.least-before <= most && least <= c.most+before {
			least, most = max(least, c.least-before), min(most, c.most+before)
		}
	}
	c.least, c.most, c.heard = least, most, heard
}

func driftIn(d time.Duration) time.Duration {
	return time.Duration(float64(d.Abs())*clockDrift) + 1
}

// Forget drops what is known: another server, with another clock, may answer next.
func (c *Clock) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = time.Time{}
}

// Bounds returns the Unix milliseconds that Redis' clock has shown at t, at least and
// at most, and false where it was not read of late.
func (c *Clock) Bounds(t time.Time) (least, most int64, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	age := t.Sub(c.heard)
	if age > clockAge {
		return 0, 0, false
	}
	drift, passed := driftIn(age), t.Sub(c.origin)
	return (c.least - drift + passed).Milliseconds(), (c.most + drift + passed).Milliseconds(), true
}
