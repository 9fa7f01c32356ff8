package intake

import (
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// ackWait is how long a message waits to be acknowledged together with others.
const ackWait = 20 * time.Millisecond

// acks acknowledges the deliveries of a channel, many at once: each frame is an entry in
// the queue's log. A delivery that takes longer does not hold up the others.
type acks struct {
	ch   amqp.Acknowledger
	most int // how many may wait at once

	mu      sync.Mutex
	next    uint64          // the first delivery that is not acknowledged
	done    map[uint64]bool // those from next on that are dealt with: whether the broker knows
	waiting int
	timer   *time.Timer
}

func newAcks(ch amqp.Acknowledger, most int) *acks {
	a := &acks{ch: ch, most: most, next: 1, done: map[uint64]bool{}}
	a.timer = time.AfterFunc(time.Hour, a.flush)
	a.timer.Stop()
	return a
}

// add takes the tag of a delivery that is dealt with.
func (a *acks) add(tag uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done[tag] = false
	if a.waiting++; a.waiting >= a.most {
		a.together()
	} else if a.waiting == 1 {
		a.timer.Reset(ackWait)
	}
}

// reject takes the tag of a delivery that is to be dead-lettered.
func (a *acks) reject(tag uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_ = a.ch.Reject(tag, false)
	a.done[tag] = true
}

// together acknowledges all deliveries before the first that is not dealt with. If the
// channel is gone, they come again, and are recognised.
func (a *acks) together() {
	last := uint64(0)
	for ; ; a.next++ {
		known, ok := a.done[a.next]
		if !ok {
			break
		}
		delete(a.done, a.next)
		if !known {
			last = a.next // which the broker must be waiting for
			a.waiting--
		}
	}
	if last > 0 {
		_ = a.ch.Ack(last, true)
	}
}

// flush acknowledges all that is dealt with.
func (a *acks) flush() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.timer.Stop()
	a.together()
	for tag, known := range a.done {
		if !known {
			_ = a.ch.Ack(tag, false)
			a.done[tag] = true
		}
	}
	a.waiting = 0
}
