package redisbridge

import (
	"sync"
	"time"
)

// objections counts, for each message, how often in a row the broker has closed the channel
// over it when it was alone there. Over one that is to blame it does so each time; but a
// broker that has trouble of its own, such as while it starts, may do so over any.
type objections struct {
	mu sync.Mutex
	of map[string]int
}

func newObjections() *objections { return &objections{of: map[string]int{}} }

// pause counts one more, and returns how long the message waits now: refusedPause at first,
// then twice as long each time, up to brokenPause.
func (o *objections) pause(id string) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, known := o.of[id]; !known && len(o.of) >= claimMost {
		clear(o.of) // they only begin again with short pauses
	}
	d := refusedPause
	for range o.of[id] {
		d = min(2*d, brokenPause)
	}
	o.of[id]++
	return d
}

// forget ends the row: the broker has the message.
func (o *objections) forget(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.of, id)
}
