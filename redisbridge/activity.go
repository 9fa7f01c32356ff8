package redisbridge

import (
	"context"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/topology"
)

// Activity is what a [Bridge] has done since it was made. What happens to each message
// Config.Observe tells.
type Activity struct {
	// Shards is how many this bridge has now.
	Shards int
	// LeaseExpiries counts the leases of shards that ran out while there was work: those
	// of other bridges, which this one took over, and its own.
	LeaseExpiries int64
	// Reconnects counts connections to RabbitMQ made again after one was lost.
	Reconnects int64
	// TakenIn is of the messages that the bridge has taken from the inbox.
	TakenIn TakenIn
}

// TakenIn counts messages of the inbox by what became of them.
type TakenIn struct {
	// Parked are in Redis, Duplicates were there before, and Published went straight to
	// the ready exchange.
	Parked, Duplicates, Published int64
	// Dropped were cancelled before, and Quarantined make no sense.
	Dropped, Quarantined int64
	// WithoutID are those of all these that came without a message-id.
	WithoutID int64
}

// takenIn is what TakenIn is read from.
type takenIn struct{ parked, duplicates, published, dropped, quarantined, withoutID atomic.Int64 }

// counted adds one where err is nil, and returns err.
func counted(n *atomic.Int64, err error) error {
	if err == nil {
		n.Add(1)
	}
	return err
}

// Activity returns what the bridge has done.
func (b *Bridge) Activity() Activity {
	a := Activity{TakenIn: TakenIn{
		Parked: b.taken.parked.Load(), Duplicates: b.taken.duplicates.Load(), Published: b.taken.published.Load(),
		Dropped: b.taken.dropped.Load(), Quarantined: b.taken.quarantined.Load(), WithoutID: b.taken.withoutID.Load(),
	}}
	for _, conn := range []*broker.Conn{b.conn, b.consume} {
		a.Reconnects += int64(conn.State().Reconnects())
	}
	for _, s := range b.shards {
		s.health.mu.Lock()
		if s.health.owned {
			a.Shards++
		}
		a.LeaseExpiries += s.health.lost
		s.health.mu.Unlock()
	}
	return a
}

// CountQueues asks the broker, over the bridge's own connection, how many messages wait
// in the queues of the topology.
func (b *Bridge) CountQueues(ctx context.Context) (topology.Counts, error) {
	channels := channelsFunc(func() (*amqp.Channel, error) { return b.consume.Channel(ctx) })
	return b.config.Topology.Count(ctx, channels)
}

// stopwatch returns when something begins that Config.ObserveConfirm is told of.
func (b *Bridge) stopwatch() (began time.Duration) {
	if b.config.ObserveConfirm != nil {
		began = time.Since(b.made)
	}
	return began
}

func (b *Bridge) stop(began time.Duration, answer error) {
	if b.config.ObserveConfirm != nil {
		b.config.ObserveConfirm(time.Since(b.made)-began, answer)
	}
}
