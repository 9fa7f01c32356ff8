// Package members knows which bridges are alive, and whose each shard is meant to be.
package members

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/redisbridge/internal/store"
)

// A bridge renews its entry in the register every attendEvery, and counts as
// dead after attendFor. The register only says who should own which shard; the
// lease decides that no other bridge owns it, and which one takes over from a dead
// bridge, so the register can be slow.
const (
	attendEvery = 15 * time.Second
	attendFor   = 40 * time.Second
	// reportEvery is how soon a bridge reports what is new.
	reportEvery = 2 * time.Second
)

// Config of a [Register].
type Config struct {
	Store  *store.Store
	Bridge string // ID of this one
	// Report is what this bridge reports of itself, and News has a value when there is
	// something new in it.
	Report func() string
	News   <-chan struct{}
	// Hurry has a value when the register is to be looked at soon.
	Hurry <-chan struct{}
	// Heard is called after each answer of Redis.
	Heard func()
	// Lost is told what has vanished, and Loss, otherwise, the loss that was noted down,
	// or "".
	Lost func(ctx context.Context, what string)
	Loss func(text string)
	// Changed is called when other bridges are alive than before.
	Changed func(alive []string)
}

// Register knows which bridges are alive.
type Register struct {
	config Config

	mu       sync.Mutex
	alive    []string  // sorted
	attended time.Time // when this bridge last renewed its entry
}

// New does no I/O.
func New(c Config) *Register { return &Register{config: c} }

// Run renews the entry until ctx ends. It returns store.ErrForeign where a bridge of another installation has adopted the prefix.
func (r *Register) Run(ctx context.Context, me store.Owner) error {
	defer r.leave()
	for ctx.Err() == nil {
		r.attend(ctx, attendFor)
		if _, err := r.config.Store.Own(ctx, me, false); errors.Is(err, store.ErrForeign) {
			return err
		}
		r.await(ctx)
	}
	return nil
}

// await returns when the entry is to be renewed: soon, where there is something new to
// report.
func (r *Register) await(ctx context.Context) {
	timer := time.NewTimer(attendEvery)
	defer timer.Stop()
	for news := r.config.News; ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-r.config.Hurry:
			return
		case <-news:
			news = nil
			timer.Reset(reportEvery)
		}
	}
}

func (r *Register) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	r.attend(ctx, 0)
}

func (r *Register) attend(ctx context.Context, lifetime time.Duration) {
	asked := time.Now()
	a, err := r.config.Store.Attend(ctx, r.config.Bridge, lifetime, r.config.Report())
	if err != nil {
		return // those who claim notice, too, and say so; the last known register stays
	}
	r.config.Heard()
	r.mu.Lock()
	expected := asked.Sub(r.attended) < attendFor
	r.attended = asked
	changed := !slices.Equal(a.Alive, r.alive)
	r.alive = a.Alive
	r.mu.Unlock()
	switch {
	case lifetime == 0:
		return
	case expected && !a.Entered:
		r.config.Lost(ctx, "this bridge's entry in the register")
	case !a.Layout:
		r.config.Lost(ctx, "the layout")
	default:
		r.config.Loss(a.Loss)
	}
	if changed {
		r.config.Changed(a.Alive)
	}
}

// Prefers reports whether a shard is to be this bridge's: the bridges divide
// the shards evenly among them, each by the same rule.
func (r *Register) Prefers(shard int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.alive) == 0 || r.alive[shard%len(r.alive)] == r.config.Bridge
}

// First reports whether of all bridges this one is to do what one of them does for all.
// It is not before the bridges are known.
func (r *Register) First() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.alive) > 0 && r.alive[0] == r.config.Bridge
}
