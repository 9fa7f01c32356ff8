package topology

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/topology/internal/rabbitmq"
)

// Counts are how many messages wait in the queues of a topology. A queue that does not
// exist, or of which the broker does not say, is missing.
type Counts struct {
	// Tiers are by TTL, as are Lanes, those of all shards together. Both include those
	// of the entries beside the default one.
	Tiers, Lanes map[time.Duration]int
	// Queues are by name, and include the inbox, unrouted and quarantine.
	Queues map[string]int
	// Silent are the names of the queues that did not answer in time: they have no leader,
	// say. Nothing is known of them.
	Silent []string
}

// Count asks over AMQP how many messages there are that are with no consumer. Those of a
// tier or lane that are due, and that the queue they lead to has not taken yet, are not
// among them: [Topology.CountNotTaken].
//
// A queue that does not answer within a second is left out, as is what was not asked when
// ctx ends, and both are in Counts.Silent. An error means that the broker did not answer.
func (t *Topology) Count(ctx context.Context, channels Channels) (Counts, error) {
	s := rabbitmq.NewSession(channels)
	defer func() { s.Close() }()
	c := Counts{Tiers: map[time.Duration]int{}, Lanes: map[time.Duration]int{}, Queues: map[string]int{}}
	for _, queue := range t.Queues() {
		n, err := s.Count(ctx, queue.Name)
		switch {
		case err == nil:
			c.Queues[queue.Name] = n
		case errors.Is(err, rabbitmq.ErrSilent):
			c.Silent = append(c.Silent, queue.Name)
			s = rabbitmq.NewSession(channels)
		case ctx.Err() != nil && len(c.Queues)+len(c.Silent) > 0:
			c.Silent = append(c.Silent, queue.Name)
		case !rabbitmq.Answered(err, amqp.NotFound):
			return Counts{}, fmt.Errorf("topology: count messages: queue %s: %w", queue.Name, err)
		}
	}
	t.sum(c)
	return c, nil
}

// sum adds up what is in tiers and lanes.
func (t *Topology) sum(c Counts) {
	for _, entry := range t.sets() {
		for _, tier := range t.tiers {
			if n, there := c.Queues[t.tierOf(entry, tier.TTL)]; there {
				c.Tiers[tier.TTL] += n
			}
		}
		for _, ttl := range t.Leads() {
			for shard := range t.shards {
				if n, there := c.Queues[t.LaneOf(entry, ttl, shard)]; there {
					c.Lanes[ttl] += n
				}
			}
		}
	}
}

// CountNotTaken asks the management API how many messages of tiers and lanes are due, and
// not yet taken by the queue that they lead to. Its figures may be ten seconds old; of a
// queue that is as new as that there are none.
func (t *Topology) CountNotTaken(ctx context.Context, m *Management) (int, error) {
	n := 0
	byQueue, err := t.NotTaken(ctx, m)
	for _, count := range byQueue {
		n += count
	}
	return n, err
}

// NotTaken is [Topology.CountNotTaken] by the name of the tier's or lane's queue. A queue
// of which there are no figures is missing.
func (t *Topology) NotTaken(ctx context.Context, m *Management) (map[string]int, error) {
	queues, err := rabbitmq.Queues(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("topology: count messages: %w", err)
	}
	n := map[string]int{}
	for _, waiting := range t.waitingQueues() {
		if notTaken, known := queues[waiting.Name].NotTaken(); known {
			n[waiting.Name] = notTaken
		}
	}
	return n, nil
}
