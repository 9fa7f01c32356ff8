package store

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/delaybridge/delaybridge/redisbridge/internal/store/format"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store/server"
)

// LayoutVersion is the latest version of the keys and their contents that is known. A prefix has
// freshVersion until its number of shards changes: earlier releases know that one, too.
const (
	LayoutVersion = "6"
	freshVersion  = "5"
)

// Layout is how the messages of a prefix are spread over shards.
type Layout struct {
	Version    string // empty where nothing was ever parked
	Generation int    // how often the number of shards has changed
	Shards     int    // 0 where nothing was ever parked
	Next       int    // number of shards that there is to be, while messages move; or 0
}

// Known reports whether this release knows the version.
func (l Layout) Known() bool { return l.Version == LayoutVersion || l.Version == freshVersion }

// readLayout reads what is noted down.
func readLayout(found map[string]string) (l Layout, err error) {
	l.Version = found["version"]
	for field, into := range map[string]*int{"generation": &l.Generation, "shards": &l.Shards, "next_shards": &l.Next} {
		if found[field] == "" {
			continue
		}
		if *into, err = strconv.Atoi(found[field]); err != nil || *into < 0 {
			return Layout{}, fmt.Errorf("%w: the layout has %s %q", server.ErrConfiguration, field, found[field])
		}
	}
	return l, nil
}

// fields are what readLayout reads.
func (l Layout) fields() []any {
	fields := []any{"version", l.Version, "generation", l.Generation, "shards", l.Shards}
	if l.Next > 0 {
		fields = append(fields, "next_shards", l.Next)
	}
	return fields
}

// Shards returns those that there are, and what is closed when there are others. While their number changes, those
// from which messages move come first.
func (s *Store) Shards() (all []*Shard, changed <-chan struct{}) {
	v := s.view.Load()
	return v.all(), v.changed
}

// Layout returns what was last read of it.
func (s *Store) Layout() Layout { return s.view.Load().layout }

// see takes a layout for what there is.
func (s *Store) see(l Layout) {
	s.seeing.Lock()
	defer s.seeing.Unlock()
	before := s.view.Load()
	if before != nil && before.layout == l {
		return
	}
	v := &view{layout: l, changed: make(chan struct{})}
	v.shards = s.generation(l.Generation, l.Shards)
	if l.Next > 0 {
		v.next = s.generation(l.Generation+1, l.Next)
	}
	s.view.Store(v)
	if before != nil && (before.layout.Generation != l.Generation || before.layout.Shards != l.Shards || before.layout.Next != l.Next) {
		close(before.changed)
	} else if before != nil {
		v.changed = before.changed
	}
}

// ReadLayout reads how messages are spread over shards, and goes by that from then on. It is zero where nothing
// was ever parked.
func (s *Store) ReadLayout(ctx context.Context) (Layout, error) {
	found, err := s.config.Client.HGetAll(ctx, format.LayoutKey(s.config.Topology)).Result()
	if err != nil {
		return Layout{}, server.ClassifyRead(err)
	}
	return s.learn(found)
}

// learn sees the layout in found, where it is whole.
func (s *Store) learn(found map[string]string) (Layout, error) {
	l, err := readLayout(found)
	if err == nil && l.Version != "" && l.Shards > 0 {
		s.see(l)
	}
	return l, err
}

// Current is Open after reading the layout anew.
func (s *Store) Current(ctx context.Context) ([]*Shard, error) {
	if _, err := s.ReadLayout(ctx); err != nil {
		return nil, err
	}
	return s.Open(ctx)
}

// Open returns the shards that have messages now, those from which they move before others.
func (s *Store) Open(ctx context.Context) ([]*Shard, error) {
	v := s.view.Load()
	if v.next == nil {
		return v.shards, nil
	}
	closed, err := s.stateOf(ctx, v.shards, "closed")
	if err != nil {
		return nil, err
	}
	var open []*Shard
	for n, shard := range v.shards {
		if closed[n] == "" {
			open = append(open, shard)
		}
	}
	return append(open, v.next...), nil
}

// CheckLayout compares what is stored under the prefix with the topology, and
// notes it down where nothing is stored yet. A message is found by its ID only
// while all count the same number of shards: where that has changed, that of the topology is no matter any more. An owner
// that is known is the layout's.
func (s *Store) CheckLayout(ctx context.Context) error {
	client, t := s.config.Client, s.config.Topology
	key := format.LayoutKey(t)
	found, err := client.HGetAll(ctx, key).Result()
	if err != nil {
		return fmt.Errorf("redisbridge: %w", server.Classify(err))
	}
	if found["version"] == "" || found["shards"] == "" { // otherwise nothing is written, so that a bridge can start when Redis is full
		if err := s.noteLayout(ctx); err != nil {
			return fmt.Errorf("redisbridge: %w", server.Classify(err))
		}
		if found, err = client.HGetAll(ctx, key).Result(); err != nil {
			return fmt.Errorf("redisbridge: %w", server.Classify(err))
		}
	}
	if version := found["version"]; version != LayoutVersion && version != freshVersion {
		return fmt.Errorf("%w: prefix %s holds what another release of delaybridge has parked (layout %s, not %s): let that one deliver it, or choose another prefix",
			server.ErrConfiguration, t.Prefix(), version, LayoutVersion)
	}
	l, err := readLayout(found)
	if err != nil {
		return err
	}
	if l.Generation == 0 && l.Shards != t.Shards() && l.Next != t.Shards() {
		return fmt.Errorf("%w: prefix %s is in use with shards %d, not %d: set it to %d, or change it with delaybridge reshard %d, or choose another prefix",
			server.ErrConfiguration, t.Prefix(), l.Shards, t.Shards(), l.Shards, t.Shards())
	}
	s.see(l)
	return s.checkOwner(found, s.config.Owner)
}

// noteLayout notes down the layout that was last seen, or that of the topology.
func (s *Store) noteLayout(ctx context.Context) error {
	client, key, l := s.config.Client, format.LayoutKey(s.config.Topology), s.Layout()
	if l.Generation > 0 || l.Next > 0 { // it was lost: at once, so that no process takes a part of it for another one
		return client.HSet(ctx, key, l.fields()...).Err()
	}
	for field, value := range map[string]string{"version": freshVersion, "shards": strconv.Itoa(l.Shards)} {
		if err := client.HSetNX(ctx, key, field, value).Err(); err != nil {
			return err
		}
	}
	return nil
}

// A Shard is one of a generation. Methods of the Store that are about one shard take it from
// [Store.Shards].
type Shard struct {
	keys       format.ShardKeys
	generation int
	number     int
	clock      *server.Clock
	frontier   atomic.Int64 // what is in slots before it is known to have gone to the next generation
}

// Number is that of the shard within its generation, from 0 on: it uses the lanes with that number.
func (s *Shard) Number() int { return s.number }

// Generation is how often the number of shards had changed before there was this one.
func (s *Shard) Generation() int { return s.generation }

// Name tells the shard from all others of its prefix.
func (s *Shard) Name() string { return s.keys.Number }

// view is where the messages of a prefix are, as far as is known.
type view struct {
	layout  Layout
	shards  []*Shard
	next    []*Shard      // while messages move there
	changed chan struct{} // closed when there is another view
}

// all returns the shards from which messages move before those that they move to.
func (v *view) all() []*Shard { return slices.Concat(v.shards, v.next) }

// locate returns the shard of a key, as far as is known, and its slot.
func (v *view) locate(key string) (*Shard, format.Slot) {
	n, slot := format.Locate(key, len(v.shards))
	shard := v.shards[n]
	if v.next != nil && slot.Number() < shard.frontier.Load() {
		n, _ = format.Locate(key, len(v.next))
		shard = v.next[n]
	}
	return shard, slot
}

// generation returns the shards of one, the same ones each time.
func (s *Store) generation(generation, n int) []*Shard {
	all := s.generations[generation]
	for len(all) < n {
		all = append(all, &Shard{keys: format.KeysOf(s.config.Topology, generation, len(all)), generation: generation, number: len(all), clock: server.NewClock()})
	}
	s.generations[generation] = all
	return all[:n:n]
}

const (
	// moveWithin is for how long a call follows an ID that moves: longer than another bridge needs to
	// take over from one that has died between two scripts.
	moveWithin = 15 * time.Second
	// notYetPause is between two looks at an ID that is between two shards.
	notYetPause = 3 * time.Millisecond
	// stalePause is between two looks at a layout that does not say where an ID is.
	stalePause = 50 * time.Millisecond
)

// onShard calls do with the shard and the slot of a key, again where that has moved.
func (s *Store) onShard(ctx context.Context, key string, do func(*Shard, format.Slot) error) error {
	for began := time.Now(); ; {
		v := s.view.Load()
		shard, slot := v.locate(key)
		err := do(shard, slot)
		if err == nil || time.Since(began) >= moveWithin || !s.follow(ctx, v, shard, err) {
			return err
		}
	}
}

// follow reports whether a script of a shard of v has refused an ID since that is elsewhere, or on its way there, so
// that another try helps; it returns when that may be.
func (s *Store) follow(ctx context.Context, v *view, shard *Shard, err error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	switch {
	case strings.HasPrefix(text, server.NotYet):
		server.Pause(ctx, notYetPause)
	case strings.HasPrefix(text, server.Gone):
		number, _, _ := strings.Cut(text[len(server.Gone):], " ")
		frontier, parseErr := strconv.ParseInt(number, 10, 64)
		if parseErr != nil {
			return false
		}
		for {
			before := shard.frontier.Load()
			if frontier <= before || shard.frontier.CompareAndSwap(before, frontier) {
				break
			}
		}
		if v.next != nil && shard.generation == v.layout.Generation || s.view.Load() != v {
			break // it is known where
		}
		if _, err := s.ReadLayout(ctx); err != nil || s.view.Load() == v {
			server.Pause(ctx, stalePause)
		}
	default:
		return false
	}
	return ctx.Err() == nil
}
