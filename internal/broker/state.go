package broker

import (
	"fmt"
	"time"
)

// State is how a connection is doing.
type State struct {
	// Up says that there is a connection, and Blocked that the broker takes nothing
	// that is published over it.
	Up, Blocked bool
	// Since is when that last changed, or when the Conn was made.
	Since time.Time
	// Made is how many connections there were, this one included.
	Made int
	// Redacted is the URL without its password.
	Redacted string
}

// State returns how the connection is doing.
func (c *Conn) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return State{Up: c.conn != nil, Blocked: c.blocked, Since: c.since, Made: c.made, Redacted: Redact(c.config.URL)}
}

// Reconnects is how often a connection was made after the first one.
func (s State) Reconnects() int { return max(0, s.Made-1) }

// Check says what is wrong, or nil. It bears with what has been so for less than grace,
// unless there was no connection yet.
func (s State) Check(now time.Time, grace time.Duration) error {
	lasted := now.Sub(s.Since).Truncate(time.Millisecond)
	switch {
	case s.Made > 0 && lasted < grace:
		return nil
	case s.Up && s.Blocked:
		return fmt.Errorf("RabbitMQ at %s is short of memory or disk, and has blocked publishers for %v", s.Redacted, lasted)
	case !s.Up:
		return fmt.Errorf("no connection to RabbitMQ at %s for %v", s.Redacted, lasted)
	}
	return nil
}
