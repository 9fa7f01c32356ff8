// Package store is all that is kept in Redis: the keys, the records and their codec, and one
// method for each script, which lies in lua. No other package sees a key, a script or a raw
// answer.
package store

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/topology"
)

// Config of a [Store]. What it means is said where callers set it: redisbridge.ParkConfig.
type Config struct {
	Client                       redis.UniversalClient
	Topology                     *topology.Topology
	Owner                        Owner
	Window, Remember, Tombstones time.Duration
	Quotas                       map[string]Quota // by entry
}

// Store is what Redis has under the prefix of a topology. It may be used from many
// goroutines.
type Store struct {
	config  Config
	scripts scripts
	keys    []shardKeys
	clocks  []*Clock // one per shard, as each may be another server's
	leads   []any    // TTLs of the lanes in ms, longest first
	batches *batcher
	pool    *parkPool
	turn    sync.Mutex  // of a batch that asks whether there is room
	checked atomic.Bool // Redis holds the layout that the topology describes
}

// New does no I/O.
func New(c Config) *Store {
	s := &Store{config: c, scripts: newScripts(), keys: allKeys(c.Topology), batches: &batcher{}, pool: &parkPool{}}
	for _, lead := range slices.Backward(c.Topology.Leads()) {
		s.leads = append(s.leads, lead.Milliseconds())
	}
	for range s.keys {
		s.clocks = append(s.clocks, NewClock())
	}
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

// Clock is Redis' clock, as far as the answers for a shard have told.
func (s *Store) Clock(shard int) *Clock { return s.clocks[shard] }

// Now returns what Redis' clock shows: that of the node of shard 0 in a cluster.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	us, err := s.readClock(ctx, 0)
	return time.UnixMicro(us), err
}

// ReadClock asks Redis for the clock of a shard, which [Store.Clock] then knows better.
func (s *Store) ReadClock(ctx context.Context, shard int) error {
	asked := time.Now()
	us, err := s.readClock(ctx, shard)
	if err == nil {
		s.clocks[shard].Learn(asked, time.Now(), us)
	}
	return err
}

func (s *Store) readClock(ctx context.Context, shard int) (us int64, err error) {
	us, err = s.scripts.clock.RunRO(ctx, s.config.Client, []string{s.keys[shard].state}).Int64()
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
