package consumer

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/health"
)

// Check returns nil while the consumer is connected and its queue knows it. The error says
// what is not so, and has lasted for longer than ten seconds, or since the start. It does
// no I/O.
func (c *Consumer) Check() error {
	now := time.Now()
	if err := c.intake.check(now); err != nil {
		// A lost connection is why the queue does not know it.
		if lost := c.consuming.State().Check(now, health.Grace); lost != nil {
			return lost
		}
		return fmt.Errorf("queue %q: %w", c.config.Queue, err)
	}
	return c.publishing.State().Check(now, health.Grace)
}

// Reconnects is how often a connection to the broker was made again after it was lost.
func (c *Consumer) Reconnects() int64 {
	n := 0
	for _, conn := range []*broker.Conn{c.consuming, c.publishing} {
		n += conn.State().Reconnects()
	}
	return int64(n)
}

// intake is whether the queue is being consumed.
type intake struct {
	mu       sync.Mutex
	began    bool
	stopping bool
	on       bool
	since    time.Time
	fault    error // why not
}

func (i *intake) set(on bool, fault error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.on != on {
		i.since = time.Now()
	}
	i.on, i.fault, i.began = on, fault, i.began || on
}

func (i *intake) stop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stopping = true
}

func (i *intake) check(now time.Time) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.stopping:
		return errors.New("the consumer is stopping")
	case i.on, i.began && now.Sub(i.since) < health.Grace:
		return nil
	case i.fault != nil:
		return fmt.Errorf("it is not being consumed: %w", i.fault)
	}
	return errors.New("it is not being consumed yet")
}
