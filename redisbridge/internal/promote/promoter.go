// Package promote publishes parked messages, shortly before they are due: a shard's loop of
// claim, plan, publish, confirm and settle.
package promote

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/health"
	"github.com/delaybridge/delaybridge/internal/sleep"
	"github.com/delaybridge/delaybridge/internal/tracing"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store"
	"github.com/delaybridge/delaybridge/redisbridge/internal/upkeep"
	"github.com/delaybridge/delaybridge/topology"
)

// Step is a boundary on the way of a parked message; redisbridge.Step says what each means.
type Step int

// The steps.
const (
	Claimed Step = iota + 1
	Published
	Confirmed
	Settled
	Returned
)

// Stats are told what happens.
type Stats interface {
	// Owns is told, again and again, whether a shard is this bridge's.
	Owns(shard *store.Shard, owns bool)
	// Claimed is told of a claim that got messages, and Settled how many the broker has.
	Claimed(c *store.Claimed)
	Settled(n int)
	// Ready is told how late, in ms, a message was published straight to the ready
	// exchange.
	Ready(lateMS int64)
}

// Config of a [Promoter]. What its settings mean is said at redisbridge.Config.
type Config struct {
	Store    *store.Store
	Topology *topology.Topology
	Bridge   string // its ID
	Conn     *broker.Conn

	Lease, DrainTimeout, RepairEvery time.Duration
	MaxInFlight                      int

	// Prefers reports whether the shards with a number are meant to be this bridge's.
	Prefers    func(number int) bool
	Ready      *upkeep.ReadyExchanges
	Repairs    *upkeep.Repairs
	Conditions *health.Conditions
	// TakesIn is what the intake waits for.
	TakesIn *broker.Unanswered
	Stats   Stats
	// Ends says whether an error ends the bridge, Heard is called after each answer to a
	// claim, and Lost is told what has vanished from Redis.
	Ends  func(error) bool
	Heard func()
	Lost  func(ctx context.Context, what string)

	Observe        func(step Step, id string, path message.Path)
	ObserveConfirm func(took time.Duration, answer error) // may be nil
	Tracer         *tracing.Tracer                        // nil where nothing is traced
	Logger         *slog.Logger
}

// Promoter has the shards of a bridge.
type Promoter struct {
	config  Config
	made    time.Time // ticks are counted from here
	backlog *backlog
	moving  sync.Mutex // one shard at a time moves messages to other shards

	mu     sync.Mutex
	shards map[string]*shard // by name
}

// New does no I/O.
func New(c Config) *Promoter {
	p := &Promoter{config: c, made: time.Now(), backlog: newBacklog(c.Bridge), shards: map[string]*shard{}}
	all, _ := c.Store.Shards()
	for _, one := range all {
		p.shards[one.Name()] = newShard(p, one)
	}
	return p
}

// Run promotes until ctx ends, then finishes what is claimed and gives the shards up. While the number of shards
// changes it works on those that there were and those that there are to be.
func (p *Promoter) Run(ctx context.Context) error {
	workers, work := errgroup.WithContext(ctx)
	workers.Go(func() error { p.tellOthers(work); return nil })
	running := map[string]bool{}
	for work.Err() == nil {
		all, changed := p.config.Store.Shards()
		now := map[string]bool{}
		for _, one := range all {
			now[one.Name()] = true
			if running[one.Name()] {
				continue
			}
			s := p.shard(one)
			workers.Go(func() error { return s.run(work) })
		}
		p.forget(now)
		running = now
		select {
		case <-work.Done():
		case <-changed:
			p.WakeAll()
		}
	}
	return workers.Wait()
}

// shard returns what works on a shard.
func (p *Promoter) shard(of *store.Shard) *shard {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.shards[of.Name()]
	if s == nil {
		s = newShard(p, of)
		p.shards[of.Name()] = s
	}
	return s
}

// forget ends the work on shards that there are no more.
func (p *Promoter) forget(now map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, s := range p.shards {
		if !now[name] {
			s.end()
			delete(p.shards, name)
		}
	}
}

// all returns what works on shards, in their order.
func (p *Promoter) all() []*shard {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.SortedFunc(maps.Values(p.shards), func(a, b *shard) int {
		return cmp.Or(cmp.Compare(a.of.Generation(), b.of.Generation()), cmp.Compare(a.n, b.n))
	})
}

// Wake says that a shard has something to do earlier than expected.
func (p *Promoter) Wake(name string) {
	p.mu.Lock()
	s := p.shards[name]
	p.mu.Unlock()
	if s != nil {
		signal(s.woken)
	}
}

// WakeAll wakes all shards.
func (p *Promoter) WakeAll() {
	for _, s := range p.all() {
		signal(s.woken)
	}
}

// Hear takes what another bridge has told.
func (p *Promoter) Hear(text string) { p.backlog.hear(text) }

// tellOthers tells the other bridges how far this one is, while there is a backlog.
func (p *Promoter) tellOthers(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.backlog.tell:
		}
		if due, ok := p.backlog.last(time.Now()); ok {
			// A bridge that does not hear it does not wait, and is out of order at worst.
			p.config.Store.Tell(ctx, fmt.Sprint(paceWord, p.config.Bridge, " ", due))
		}
	}
}

// Longest is the target that the broker has not answered for, for the longest time.
func (p *Promoter) Longest() (worst broker.Silence) {
	for _, s := range p.all() {
		if l := s.unanswered.Longest(); l.For > worst.For {
			worst = l
		}
	}
	return worst
}

// Check returns what is wrong, and has been for health.Grace or since the start.
func (p *Promoter) Check(now time.Time) (faults []error) {
	for _, s := range p.all() {
		faults = append(faults, s.health.check(now, s.name, p.config.Prefers(s.n)))
	}
	return faults
}

// LeaseExpiries counts the leases that have run out while there was work.
func (p *Promoter) LeaseExpiries() (n int64) {
	for _, s := range p.all() {
		s.health.mu.Lock()
		n += s.health.lost
		s.health.mu.Unlock()
	}
	return n
}

// awaitTick waits for the next of this bridge's ticks, of which there is one in every.
func (p *Promoter) awaitTick(ctx context.Context, every time.Duration) {
	sleep.For(ctx, every-time.Since(p.made)%every)
}

// stopwatch returns when something begins that Config.ObserveConfirm is told of.
func (p *Promoter) stopwatch() (began time.Duration) {
	if p.config.ObserveConfirm != nil {
		began = time.Since(p.made)
	}
	return began
}

func (p *Promoter) stop(began time.Duration, answer error) {
	if p.config.ObserveConfirm != nil {
		p.config.ObserveConfirm(time.Since(p.made)-began, answer)
	}
}

// signal leaves a mark in a channel of capacity 1, unless there is one already.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
