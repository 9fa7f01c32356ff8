// Package unsettled is about deliveries that a consumer has neither acknowledged nor given
// back. It says for how long each may be held and which of them no handler has begun, has
// those of one key wait for each other, and sees that the last acknowledgements arrive.
package unsettled

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// RabbitMQ takes back a message that is not acknowledged within its consumer_timeout: it
// closes the channel, or, from 4.3 on, cancels the consumer. Then everything that the
// consumer holds is delivered again, and up to 4.2 that counts towards the queue's delivery
// limit. So a message is given back before, at these shares of the timeout after it was
// delivered.
const (
	// unbegunShare: no handler has begun it. A handler that begins then has the other half.
	unbegunShare = 1.0 / 2
	// retryShare: it waits for its next attempt in the consumer. That begins by then.
	retryShare = 3.0 / 4
	// heldShare: it waits for anything else, such as a place in the quarantine.
	heldShare = 7.0 / 8
	// lookShare is how often to look for what was not begun.
	lookShare = 1.0 / 16
)

// Delivery is a delivery that the consumer has not settled.
type Delivery struct {
	*amqp.Delivery
	Key string // by which it may wait for others; "" is none
	// Wanted ends when nothing is to be waited for any more: the message was given back,
	// its channel is lost, or it was held for as long as it may.
	Wanted  context.Context
	came    time.Time
	release context.CancelFunc // ends Wanted
	gone    bool               // given back; with Deliveries.mu
}

// Release ends Wanted.
func (d *Delivery) Release() { d.release() }

// Deliveries are those of one channel. They know what can be given back: what no handler has
// begun.
type Deliveries struct {
	alive   context.Context
	timeout time.Duration

	mu      sync.Mutex
	unbegun map[*Delivery]struct{}
}

// New returns the deliveries of a channel, with which alive ends. timeout is the broker's
// consumer_timeout.
func New(alive context.Context, timeout time.Duration) *Deliveries {
	return &Deliveries{alive: alive, timeout: timeout, unbegun: map[*Delivery]struct{}{}}
}

// share returns a part of the timeout.
func (s *Deliveries) share(part float64) time.Duration {
	return time.Duration(part * float64(s.timeout))
}

// Patience is for how long a message is held that no handler has begun.
func (s *Deliveries) Patience() time.Duration { return s.share(unbegunShare) }

// LookEvery is how often to ask for those that are Overdue.
func (s *Deliveries) LookEvery() time.Duration { return max(1, s.share(lookShare)) }

// Hold begins to hold a delivery, which has come just now.
func (s *Deliveries) Hold(delivery *amqp.Delivery) *Delivery {
	d := &Delivery{Delivery: delivery, came: time.Now()}
	d.Wanted, d.release = context.WithDeadline(s.alive, d.came.Add(s.share(heldShare)))
	s.Add(d)
	return d
}

// Extend leaves a message that was handled some time to be settled, however long its
// handler took.
func (s *Deliveries) Extend(d *Delivery) {
	if least := s.share(lookShare); time.Until(d.came.Add(s.share(heldShare))) < least {
		d.release()
		d.Wanted, d.release = context.WithTimeout(s.alive, least)
	}
}

// LeftForRetry returns for how long a message may still wait in the consumer for its next
// attempt. It is negative where that should have begun.
func (s *Deliveries) LeftForRetry(d *Delivery) time.Duration {
	return time.Until(d.came.Add(s.share(retryShare)))
}

// Add has d count as not begun, and so given back in time.
func (s *Deliveries) Add(d *Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unbegun[d] = struct{}{}
}

// Begin has d count as begun. It returns false where it was given back.
func (s *Deliveries) Begin(d *Delivery) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.unbegun, d)
	return !d.gone
}

// Overdue reports whether one that no handler has begun was held for as long as it may, or
// would be before this is asked again.
func (s *Deliveries) Overdue(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for d := range s.unbegun {
		if now.Sub(d.came) >= s.share(unbegunShare)-s.share(lookShare) {
			return true
		}
	}
	return false
}

// TakeAll returns what no handler has begun, in the order of the queue. From then on no
// handler begins it.
func (s *Deliveries) TakeAll() []*Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*Delivery
	for d := range s.unbegun {
		d.gone = true
		d.release()
		all = append(all, d)
	}
	clear(s.unbegun)
	slices.SortFunc(all, func(a, b *Delivery) int { return cmp.Compare(a.DeliveryTag, b.DeliveryTag) })
	return all
}
