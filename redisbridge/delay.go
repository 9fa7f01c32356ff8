package redisbridge

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/delaybridge/delaybridge/message"
)

// Delay parks a message whose handling has failed, to come back to the queue
// m.Journey.Queue after d, of at most message.MaxDelay. It goes into no lane: a bridge
// publishes it to the retry exchange when it is due. Where the queue is gone by then,
// or not bound there by its name, the message ends in the unrouted queue.
//
// It returns nil once Redis has the message. After an error nothing was stored, unless
// ctx has ended: where an answer is missing, it asks again until then. It makes a
// consumer.Delayer of the Park.
func (p *Park) Delay(ctx context.Context, m *message.Message, d time.Duration) error {
	if m.Journey.Queue == "" {
		return fmt.Errorf("delay message %s: its Journey names no queue to come back to", m.ID)
	}
	due := time.Now().Add(min(d, message.MaxDelay))
	retry, key := m.Retry(), retryKey(m.ID)
	begin := beginning{version: m.Journey.Version, direct: true, published: unixMS(m.Journey.Published)}
	for least := time.Millisecond; ; {
		wait := max(least, time.Until(due))
		ticket, err := p.parkAs(ctx, key, &retry, message.After(wait), begin)
		switch {
		case errors.Is(err, ErrUnconfirmed) && ctx.Err() == nil:
			pause(ctx, retryPause) // and again under the same key, under which it is parked once
		case err != nil:
			return err
		case ticket.Parking == message.Overdue: // over before it was Redis' turn; nothing was stored
			least *= 2
		default:
			return nil
		}
	}
}

// retryKey returns a key that is parked under once: several queues may have messages of
// one ID come back, foreign clients may use an ID more than once, and the next attempt
// may fail before this one is settled. The ID is for people who look into Redis.
func retryKey(id string) string { return "retry~" + id[:min(len(id), 127)] + "~" + rand.Text() }
