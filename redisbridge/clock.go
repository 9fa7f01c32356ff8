package redisbridge

import (
	"sync"
	"time"
)

// clockWindow is how long a sample of Redis' clock counts, at least; it counts
// for up to two windows. Within them the clocks drift apart by next to nothing.
const clockWindow = 2 * time.Second

// serverClock bounds what Redis' clock showed at an instant of this process,
// from the answers of scripts that have read it. So a delay can run from the
// moment of the call, however long the call has waited for its turn. Only time
// that has passed here is counted; what the machine's clock shows plays no part.
type serverClock struct {
	mu     sync.Mutex
	origin time.Time
	began  time.Time // of the window
	now    bound
	before bound
}

// bound is the smallest difference seen, in microseconds, between Redis' clock
// when it was read and this process' when the reading was asked for. As the
// reading comes after the asking, the true difference is never more.
type bound struct {
	us    int64
	known bool
}

func newServerClock() *serverClock { return &serverClock{origin: time.Now()} }

// learn takes a reading, in Unix microseconds, that was asked for at asked.
func (c *serverClock) learn(asked time.Time, readUS int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if asked.Sub(c.began) > clockWindow {
		c.before, c.now, c.began = c.now, bound{}, asked
	}
	if us := readUS - asked.Sub(c.origin).Microseconds(); !c.now.known || us < c.now.us {
		c.now = bound{us, true}
	}
}

// forget drops all samples: another server, with another clock, may answer next.
func (c *serverClock) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.before = bound{}, bound{}
}

// at returns an instant, in Unix ms, that Redis' clock had not passed at t, or 0
// where there is no fresh sample. It is seldom more than a millisecond ahead.
func (c *serverClock) at(t time.Time) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.now.known || t.Sub(c.began) > 2*clockWindow {
		return 0
	}
	us := c.now.us
	if c.before.known {
		us = min(us, c.before.us)
	}
	return (us + t.Sub(c.origin).Microseconds() + 999) / 1000
}
