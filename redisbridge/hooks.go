package redisbridge

import (
	"context"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

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

// Stats returns what the bridge has done, and what it sees to be wrong.
func (b *Bridge) Stats() BridgeStats {
	s := b.stats.snapshot(time.Now())
	s.ID = b.id
	return s
}

// CountQueues asks the broker, over the bridge's own connection, how many messages wait
// in the queues of the topology.
func (b *Bridge) CountQueues(ctx context.Context) (topology.Counts, error) {
	channels := upkeep.ChannelsFunc(func() (*amqp.Channel, error) { return b.consume.Channel(ctx) })
	return b.config.Topology.Count(ctx, channels)
}
