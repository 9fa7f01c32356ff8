package redisbridge

import (
	"sync"
	"time"
)

const (
	// clockWindow is how long a sample of Redis' clock counts, at least; it
	// counts for up to two windows.
	clockWindow = time.Second
	// clockDrift is how fast two clocks may part: one of them being slewed by as
	// much as adjtimex(2) allows.
	clockDrift = 500e-6
)

// serverClock bounds what Redis' clock shows at an instant of this process, from
// the answers of scripts that have read it. With appendfsync always an answer
// waits for the disk, at times for long; so the best of several answers tells
// much more than the last. Only time that has passed here is counted: what this
// machine's clock shows plays no part.
type serverClock struct {
	mu          sync.Mutex
	origin      time.Time
	now, before samples
}

// samples are the best ones of a window. The difference is that between Redis'
// clock when it was read and this process' when the reading was asked for,
// which is never less than the true one, or when it was heard, never more.
type samples struct {
	began       time.Time
	most, least time.Duration
}

func newServerClock() *serverClock { return &serverClock{origin: time.Now()} }

// learn takes a reading, in Unix microseconds.
func (c *serverClock) learn(asked, heard time.Time, readUS int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	read := time.Duration(readUS) * time.Microsecond // rounded down
	most, least := read+time.Microsecond-asked.Sub(c.origin), read-heard.Sub(c.origin)
	if asked.Sub(c.now.began) > clockWindow {
		c.before, c.now = c.now, samples{asked, most, least}
		return
	}
	c.now.most, c.now.least = min(most, c.now.most), max(least, c.now.least)
}

// forget drops all samples: another server, with another clock, may answer next.
func (c *serverClock) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.before = samples{}, samples{}
}

// bounds returns the Unix milliseconds between which Redis' clock was at t, and
// false where there is no fresh sample.
func (c *serverClock) bounds(t time.Time) (least, most int64, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	passed := t.Sub(c.origin)
	for _, s := range []samples{c.now, c.before} {
		age := t.Sub(s.began)
		if age > 2*clockWindow {
			continue
		}
		drift := time.Duration(float64(age.Abs())*clockDrift) + 1
		low := (s.least - drift + passed).Milliseconds()
		high := (s.most + drift + passed + time.Millisecond - 1).Milliseconds()
		if known {
			low, high = max(low, least), min(high, most)
		}
		least, most, known = low, high, true
	}
	return least, most, known
}
