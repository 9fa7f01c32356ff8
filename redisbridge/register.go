package redisbridge

import (
	"context"
	"encoding/json"
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
)

// register knows which bridges are alive.
type register struct {
	b    *Bridge
	rush chan struct{} // asks for an update at once

	mu       sync.Mutex
	alive    []string  // sorted
	attended time.Time // when this bridge last renewed its entry
}

func newRegister(b *Bridge) *register {
	return &register{b: b, rush: make(chan struct{}, 1)}
}

// run ends with ErrForeign where a bridge of another installation has adopted the prefix.
func (r *register) run(ctx context.Context, me store.Owner) error {
	defer r.leave()
	for ctx.Err() == nil {
		r.attend(ctx, attendFor)
		if _, err := r.b.store.Own(ctx, me, false); errors.Is(err, ErrForeign) {
			return err
		}
		r.await(ctx)
	}
	return nil
}

// await returns when the entry is to be renewed: soon, where there is something new to
// report.
func (r *register) await(ctx context.Context) {
	timer := time.NewTimer(attendEvery)
	defer timer.Stop()
	for news := r.b.reporter.news; ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-r.rush:
			return
		case <-news:
			news = nil
			timer.Reset(reportEvery)
		}
	}
}

func (r *register) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	r.attend(ctx, 0)
}

func (r *register) attend(ctx context.Context, lifetime time.Duration) {
	asked := time.Now()
	a, err := r.b.store.Attend(ctx, r.b.id, lifetime, r.b.reporter.write(time.Now()))
	if err != nil {
		return // those who claim notice, too, and say so; the last known register stays
	}
	r.b.heard.Store(time.Now().UnixNano())
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
		r.b.lost(ctx, "this bridge's entry in the register")
	case !a.Layout:
		r.b.lost(ctx, "the layout")
	default:
		r.b.sawLoss(a.Loss)
	}
	if changed {
		r.b.log.Info("bridges alive", "bridges", a.Alive)
		r.b.wakeShards()
		signal(r.b.statusQueue.turn)
	}
}

// prefers reports whether a shard is to be this bridge's: the bridges divide
// the shards evenly among them, each by the same rule.
func (r *register) prefers(shard int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.alive) == 0 || r.alive[shard%len(r.alive)] == r.b.id
}

// first reports whether of all bridges this one is to do what one of them does for all.
// It is not before the bridges are known.
func (r *register) first() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.alive) > 0 && r.alive[0] == r.b.id
}

// listen wakes shards when Redis says that there is something to do earlier
// than expected.
func (b *Bridge) listen(ctx context.Context) { b.store.Listen(ctx, b.calls()) }

func (b *Bridge) calls() store.Calls {
	return store.Calls{
		Subscribed: func() {
			b.wakeShards()
			signal(b.register.rush)
		},
		Members: func() { signal(b.register.rush) },
		Shard: func(shard int) {
			signal(b.statusQueue.stirred)
			if shard >= 0 && shard < len(b.shards) {
				signal(b.shards[shard].woken)
			}
		},
		Told: b.backlog.hear,
	}
}

func (b *Bridge) wakeShards() {
	for _, s := range b.shards {
		signal(s.woken)
	}
}

// signal leaves a mark in a channel of capacity 1, unless there is one already.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// lost notes down in Redis, for all who look, that what this bridge had there is gone, and
// puts the layout back. The first of several notes stays.
func (b *Bridge) lost(ctx context.Context, what string) {
	l := Loss{At: time.Now().UTC().Truncate(time.Millisecond), Bridge: b.id, What: what}
	b.conditions.begin(ConditionRedisLost, l.String())
	text, err := json.Marshal(l)
	if err != nil {
		return
	}
	if err := b.store.NoteLoss(ctx, string(text)); err != nil {
		b.log.Warn("cannot note down in Redis what it has lost", "error", err)
	}
}

// sawLoss takes what Redis says of losses: another bridge may have seen one.
func (b *Bridge) sawLoss(text string) {
	if text == "" {
		b.conditions.end(ConditionRedisLost)
		return
	}
	b.conditions.begin(ConditionRedisLost, lossOf(text).String())
}

// awaitOwner returns once the broker has said who it is, and the layout is its own.
func (b *Bridge) awaitOwner(ctx context.Context) (store.Owner, error) {
	cluster, vhost, err := b.conn.Server(ctx)
	if err != nil {
		return store.Owner{}, err // of the connection, which says so itself
	}
	me := store.Owner{Cluster: cluster, VHost: vhost}
	for {
		adopted, err := b.store.Own(ctx, me, b.config.Adopt)
		if adopted != nil {
			b.log.Warn("the messages of another installation are adopted", "from", adopted.String(), "by", me.String())
		}
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrConfiguration) {
			return me, err
		}
		b.log.Warn("Redis is not ready", "error", err, "retry_in", retryPause)
		pause(ctx, retryPause)
	}
}
