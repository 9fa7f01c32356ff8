package redisbridge

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A bridge renews its entry in the register every attendEvery, and counts as
// dead after attendFor. The register only says who should own which shard; the
// lease decides that no other bridge owns it, and which one takes over from a dead
// bridge, so the register can be slow.
const (
	attendEvery = 15 * time.Second
	attendFor   = 40 * time.Second
	// pingEvery is how soon a broken subscription is noticed, and renewed.
	pingEvery = 30 * time.Second
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
func (r *register) run(ctx context.Context, me Owner) error {
	defer r.leave()
	for ctx.Err() == nil {
		r.attend(ctx, attendFor)
		if err := r.b.own(ctx, me, false); errors.Is(err, ErrForeign) {
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
	t, asked := r.b.config.Topology, time.Now()
	answer, err := r.b.scripts.attend.Run(ctx, r.b.config.Client, []string{registerKey(t), reportsKey(t), layoutKey(t), lostKey(t)},
		r.b.id, lifetime.Milliseconds(), wakeChannel(t), r.b.reporter.write(time.Now())).StringSlice()
	if err != nil || len(answer) < registerHead {
		return // those who claim notice, too, and say so; the last known register stays
	}
	r.b.heard.Store(time.Now().UnixNano())
	entered, layout, loss, alive := answer[0] == "1", answer[1] == "1", answer[2], answer[registerHead:]
	slices.Sort(alive)
	r.mu.Lock()
	expected := asked.Sub(r.attended) < attendFor
	r.attended = asked
	changed := !slices.Equal(alive, r.alive)
	r.alive = alive
	r.mu.Unlock()
	switch {
	case lifetime == 0:
		return
	case expected && !entered:
		r.b.lost(ctx, "this bridge's entry in the register")
	case !layout:
		r.b.lost(ctx, "the layout")
	default:
		r.b.sawLoss(loss)
	}
	if changed {
		r.b.log.Info("bridges alive", "bridges", alive)
		r.b.wakeShards()
		signal(r.b.statusQueue.turn)
	}
}

// registerHead is how many values of the answer of lua/attend.lua come before the IDs.
const registerHead = 3

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
func (b *Bridge) listen(ctx context.Context) error {
	subscription := b.config.Client.Subscribe(ctx, wakeChannel(b.config.Topology))
	defer func() { _ = subscription.Close() }()
	events := subscription.ChannelWithSubscriptions(redis.WithChannelHealthCheckInterval(pingEvery))
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, ok := <-events:
			if !ok {
				return nil
			}
			b.hear(event)
		}
	}
}

func (b *Bridge) hear(event any) {
	message, ok := event.(*redis.Message)
	switch {
	case !ok: // subscribed, perhaps again: whatever was said meanwhile is unheard
		b.wakeShards()
		signal(b.register.rush)
	case b.backlog.hear(message.Payload):
	case message.Payload == wakeAll:
		signal(b.register.rush)
	default:
		signal(b.statusQueue.stirred)
		for _, s := range b.shards {
			if s.keys.number == message.Payload {
				signal(s.woken)
			}
		}
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
