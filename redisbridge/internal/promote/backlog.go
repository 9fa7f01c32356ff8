package promote

import (
	"context"
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
	paceSlack = 250 * time.Millisecond
	// paceStale is how long one is waited for who is not heard of.
	paceStale = 500 * time.Millisecond
	// paceTell is how often other bridges are told.
	paceTell = 20 * time.Millisecond
	// paceGather is how long a bridge waits at the beginning of a backlog for the
	// others to tell where they are, and paceCalm how long after the last one
	// another one begins.
	paceGather = 250 * time.Millisecond
	paceCalm   = 10 * time.Second
	// pacePoll is how often a shard looks whether it may go on, if no other shard moves.
	pacePoll = 20 * time.Millisecond
)

// backlog keeps shards side by side while they work off a backlog, so that it
// leaves in due order although many work at it. Bridges tell each other over
// the wake channel how far they are; nothing is stored.
type backlog struct {
	id   string        // of this bridge
	tell chan struct{} // there is something to tell the other bridges

	mu     sync.Mutex
	own    map[string]position // by shard
	others map[string]position // by bridge
	began  time.Time           // of the backlog
	seen   time.Time           // when there was a backlog
	told   time.Time
	limit  int64         // how far one may go, Unix ms
	woken  int64         // limit when moved was closed last
	moved  chan struct{} // closed when limit has grown by a part of the slack
}

// position is how far one has come. Another bridge tells it now and then, so
// it is known no closer than by the steps in between.
type position struct {
	due  int64 // of the next message, Unix ms
	step int64 // in due time, ms
	seen time.Time
}

func newBacklog(id string) *backlog {
	return &backlog{id: id, tell: make(chan struct{}, 1), own: map[string]position{}, others: map[string]position{}, moved: make(chan struct{})}
}

// keep waits, until patience at most, for those who have earlier messages in
// their backlog than the one that is due at due.
func (p *backlog) keep(ctx context.Context, shard string, due int64, patience time.Time) {
	for ctx.Err() == nil && time.Now().Before(patience) {
		ahead, moved := p.ahead(shard, due, time.Now())
		if !ahead {
			return
		}
		timer := time.NewTimer(pacePoll)
		select {
		case <-ctx.Done():
		case <-moved:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// ahead notes where a shard is. It reports whether that is too far, and where to
// wait for the others to move.
func (p *backlog) ahead(shard string, due int64, now time.Time) (ahead bool, moved <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.seen) >= paceCalm {
		p.began = now
	}
	p.seen = now
	p.own[shard] = position{due: due, seen: now}
	p.move(now)
	if now.Sub(p.told) >= paceTell {
		p.told = now
		signal(p.tell)
	}
	return now.Sub(p.began) < paceGather || due > p.limit, p.moved
}

// move computes anew how far one may go, and wakes those who wait for that.
func (p *backlog) move(now time.Time) {
	p.limit = min(limit(p.own, now), limit(p.others, now))
	if gain := p.limit - p.woken; gain < 0 {
		p.woken = p.limit
	} else if gain >= paceSlack.Milliseconds()/8 {
		p.woken = p.limit
		close(p.moved)
		p.moved = make(chan struct{})
	}
}

// done forgets a shard that has no backlog, or is no longer ours.
func (p *backlog) done(shard string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, there := p.own[shard]; there {
		delete(p.own, shard)
		p.move(time.Now())
	}
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
func (p *backlog) last(now time.Time) (due int64, ok bool) {
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

// hear takes what another bridge has told.
func (p *backlog) hear(text string) {
	text, ok := strings.CutPrefix(text, paceWord)
	if !ok {
		return // of another release
	}
	id, instant, _ := strings.Cut(text, " ")
	due, err := strconv.ParseInt(instant, 10, 64)
	if err != nil || id == p.id {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at := position{due: due, seen: time.Now()}
	if before, ok := p.others[id]; ok {
		at.step = 2 * max(0, due-before.due) // twice, so that the steps can grow
	}
	p.others[id] = at
	p.move(at.seen)
}

// catchUpSpeed is how many times as fast as time goes by a shard promotes what is
// late, but not overdue. More than once is enough to be in time with everything
// that can be; faster, the broker would be late with what it has already.
const catchUpSpeed = 2

// catchUp is the pace at which a shard promotes what is late after a pause.
type catchUp struct {
	held  bool      // the last claim has left something late
	asked time.Time // when it was made
}

// step returns how far the next claim may go among what is late, in time of
// promotion.
func (c *catchUp) step(now time.Time) time.Duration {
	passed := tick // the shard may have slept, or been stopped
	if c.held {
		passed = min(now.Sub(c.asked), time.Second)
	}
	c.asked = now
	return catchUpSpeed * passed
}
