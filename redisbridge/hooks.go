package redisbridge

import (
	"context"
	"strconv"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/redisbridge/internal/intake"
	"github.com/delaybridge/delaybridge/redisbridge/internal/promote"
	"github.com/delaybridge/delaybridge/redisbridge/internal/upkeep"
	"github.com/delaybridge/delaybridge/topology"
)

// Step is a boundary on the way of a parked message, as [Config.Observe] sees it.
type Step int

// The steps, in their order. A message that the broker did not take goes back
// into the schedule and begins with StepClaimed again.
const (
	// StepClaimed: Redis has answered the claim, and nothing of it is published.
	StepClaimed = Step(promote.Claimed)
	// StepPublished: the message is on its way to the broker.
	StepPublished = Step(promote.Published)
	// StepConfirmed: the broker has it, and Redis has not been told.
	StepConfirmed = Step(promote.Confirmed)
	// StepSettled: Redis knows that the broker has it, and forgets it once it is due.
	StepSettled = Step(promote.Settled)
	// StepReturned: the message is back in the schedule, because the broker has not
	// taken it, or it was not published after all.
	StepReturned = Step(promote.Returned)
)

// String returns claimed, published, confirmed, settled or returned.
func (s Step) String() string {
	switch s {
	case StepClaimed:
		return "claimed"
	case StepPublished:
		return "published"
	case StepConfirmed:
		return "confirmed"
	case StepSettled:
		return "settled"
	case StepReturned:
		return "returned"
	}
	return "Step(" + strconv.Itoa(int(s)) + ")"
}

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

// Activity returns what the bridge has done.
func (b *Bridge) Activity() Activity {
	in := b.intake.Counts()
	a := Activity{TakenIn: TakenIn{
		Parked: in.Parked, Duplicates: in.Duplicates, Published: in.Published,
		Dropped: in.Dropped, Quarantined: in.Quarantined, WithoutID: b.stats.countWithoutID(),
	}}
	for _, conn := range []*broker.Conn{b.conn, b.consume} {
		a.Reconnects += int64(conn.State().Reconnects())
	}
	a.Shards, a.LeaseExpiries = b.promoter.Counts()
	return a
}

// CountQueues asks the broker, over the bridge's own connection, how many messages wait
// in the queues of the topology.
func (b *Bridge) CountQueues(ctx context.Context) (topology.Counts, error) {
	channels := upkeep.ChannelsFunc(func() (*amqp.Channel, error) { return b.consume.Channel(ctx) })
	return b.config.Topology.Count(ctx, channels)
}

// BridgeOf returns the ID of the bridge to which a consumer of the inbox belongs, by its
// consumer tag, and false where it is no bridge's.
func BridgeOf(consumerTag string) (id string, ok bool) { return intake.BridgeOf(consumerTag) }
