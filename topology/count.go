package topology

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
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

// answerWithin is how long a queue may take to answer. One that has a leader takes
// milliseconds.
const answerWithin = time.Second

// Count asks over AMQP how many messages there are that are with no consumer. Those of a
// tier or lane that are due, and that the queue they lead to has not taken yet, are not
// among them: [Topology.CountNotTaken].
//
// A queue that does not answer within a second is left out, as is what was not asked when
// ctx ends, and both are in Counts.Silent. An error means that the broker did not answer.
func (t *Topology) Count(ctx context.Context, channels Channels) (Counts, error) {
	s := &session{channels: channels}
	defer func() { s.close() }()
	c := Counts{Tiers: map[time.Duration]int{}, Lanes: map[time.Duration]int{}, Queues: map[string]int{}}
	for _, queue := range t.Queues() {
		n, err := s.count(ctx, queue.Name)
		switch {
		case err == nil:
			c.Queues[queue.Name] = n
		case errors.Is(err, errSilent):
			c.Silent = append(c.Silent, queue.Name)
			s = &session{channels: channels}
		case ctx.Err() != nil && len(c.Queues)+len(c.Silent) > 0:
			c.Silent = append(c.Silent, queue.Name)
		case !answered(err, amqp.NotFound):
			return Counts{}, fmt.Errorf("topology: count messages: queue %s: %w", queue.Name, err)
		}
	}
	t.sum(c)
	return c, nil
}

var errSilent = errors.New("no answer from the queue")

// count asks one queue. After errSilent the session is still at it.
func (s *session) count(ctx context.Context, name string) (int, error) {
	type answer struct {
		n   int
		err error
	}
	heard := make(chan answer, 1)
	go func() {
		var a answer
		a.err = s.do(ctx, func(ch *amqp.Channel) error {
			q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
			a.n = q.Messages
			return err
		})
		heard <- a
	}()
	timer := time.NewTimer(answerWithin)
	defer timer.Stop()
	select {
	case a := <-heard:
		return a.n, a.err
	case <-timer.C:
	case <-ctx.Done():
	}
	select {
	case a := <-heard:
		return a.n, a.err
	default:
		go func() { // which ends when the queue answers, or with the connection
			<-heard
			s.close()
		}()
		return 0, errSilent
	}
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
	queues, err := m.queues(ctx)
	if err != nil {
		return nil, fmt.Errorf("topology: count messages: %w", err)
	}
	n := map[string]int{}
	for _, waiting := range t.waitingQueues() {
		if q := queues[waiting.Name]; q.Messages != nil && q.Ready != nil && q.Unacknowledged != nil {
			n[waiting.Name] = max(0, *q.Messages-*q.Ready-*q.Unacknowledged)
		}
	}
	return n, nil
}
