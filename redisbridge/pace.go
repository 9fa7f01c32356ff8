package redisbridge

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// backlogAge is how overdue a message is that belongs to a backlog.
	backlogAge = time.Second
	// paceSlack is by how much, in due time, one may always be ahead of the others.
	paceSlack = 100 * time.Millisecond
	// paceStale is how long one is waited for who is not heard of.
	paceStale = 500 * time.Millisecond
	// paceTell is how often other bridges are told.
	paceTell = 50 * time.Millisecond
	// pacePoll is how often a shard looks whether it may go on.
	pacePoll = 2 * time.Millisecond
)

// pace keeps shards side by side while they work off a backlog, so that it
// leaves in due order although many work at it. Bridges tell each other over
// the wake channel how far they are; nothing is stored.
type pace struct {
	id   string        // of this bridge
	tell chan struct{} // there is something to tell the other bridges

	mu     sync.Mutex
	own    map[int]position    // by shard
	others map[string]position // by bridge
	told   time.Time
}

// position is how far one has come. Nobody can be closer to the others than the
// steps that all of them take: a shard claims many messages at once, and a
// bridge tells where it is now and then.
type position struct {
	due  int64 // of the next message, Unix ms
	step int64 // in due time, ms
	seen time.Time
}

func newPace(id string) *pace {
	return &pace{id: id, tell: make(chan struct{}, 1), own: map[int]position{}, others: map[string]position{}}
}

// keep waits, until patience at most, for those who have earlier messages in
// their backlog than the one that is due at due. step is the time between the
// first and the last message that the shard has in hand.
func (p *pace) keep(ctx context.Context, shard int, due, step int64, patience time.Time) {
	for ctx.Err() == nil && p.ahead(shard, due, step, time.Now()) && time.Now().Before(patience) {
		pause(ctx, pacePoll)
	}
}

// ahead notes where a shard is, and reports whether it is too far ahead.
func (p *pace) ahead(shard int, due, step int64, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.own[shard] = position{due, step, now}
	if now.Sub(p.told) >= paceTell {
		p.told = now
		signal(p.tell)
	}
	return due > min(limit(p.own, now), limit(p.others, now))
}

// done forgets a shard that has no backlog, or is no longer ours.
func (p *pace) done(shard int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.own, shard)
}

// limit returns how far the others let one go. Who is not heard of any more does
// not count.
func limit[K comparable](positions map[K]position, now time.Time) int64 {
	farthest := int64(math.MaxInt64)
	for who, at := range positions {
		if now.Sub(at.seen) > paceStale {
			delete(positions, who)
			continue
		}
		farthest = min(farthest, at.due+max(paceSlack.Milliseconds(), at.step))
	}
	return farthest
}

// last returns how far the last shard of this bridge is.
func (p *pace) last(now time.Time) (due int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.own {
		if now.Sub(at.seen) <= paceStale && (!ok || at.due < due) {
			due, ok = at.due, true
		}
	}
	return due, ok
}

// paceWord starts what bridges tell each other; a bridge's ID and a due time
// follow.
const paceWord = "behind "

// hear takes what another bridge has told, and reports whether it was that.
func (p *pace) hear(text string) bool {
	text, ok := strings.CutPrefix(text, paceWord)
	if !ok {
		return false
	}
	id, instant, _ := strings.Cut(text, " ")
	due, err := strconv.ParseInt(instant, 10, 64)
	if err != nil || id == p.id {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at := position{due: due, seen: time.Now()}
	if before, ok := p.others[id]; ok {
		at.step = 2 * max(0, due-before.due) // twice, so that the steps can grow
	}
	p.others[id] = at
	return true
}

// tellOthers tells the other bridges, while there is a backlog.
func (b *Bridge) tellOthers(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-b.pace.tell:
		}
		if due, ok := b.pace.last(time.Now()); ok {
			// Who does not hear it does not wait, and is out of order at worst.
			_ = b.config.Client.Publish(ctx, wakeChannel(b.config.Topology), fmt.Sprint(paceWord, b.id, " ", due)).Err()
		}
	}
}
