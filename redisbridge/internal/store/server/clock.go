package server

import (
	"sync"
	"time"
)

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
