package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/bench/internal/figures"
	"github.com/delaybridge/delaybridge/bench/internal/lab"
)

// inbox compares what foreign clients do, from the first publish to the entry
// exchange until the last message is in Redis, with confirmed publishing of the
// same messages into a quorum queue.
func (o *overhead) inbox(ctx context.Context, rounds int) (float64, error) {
	clients, err := o.foreignClients()
	if err != nil {
		return 0, err
	}
	var ours, plain []float64
	for round := range rounds {
		for _, through := range lab.InTurns([]bool{true, false}, round) {
			began := time.Now()
			if through {
				err = o.throughInbox(ctx, clients, round)
			} else {
				err = clients.publish(ctx, "", plainQueue, round)
			}
			if err != nil {
				return 0, err
			}
			rate := lab.FloodSize / time.Since(began).Seconds()
			if through {
				ours = append(ours, rate)
				continue
			}
			plain = append(plain, rate)
			if _, err := clients.channels[0].QueuePurge(plainQueue, false); err != nil {
				return 0, err
			}
		}
		lab.Say("inbox %d of %d: through the inbox into Redis %5.0f/s, plain %5.0f/s", round+1, rounds, ours[round], plain[round])
	}
	return figures.Ratio(ours, plain), nil
}

const plainQueue = "bench.plain"

// foreignClients publish with the bare library.
type foreignClients struct {
	channels [lab.PublishChannels]*amqp.Channel
	turn     atomic.Uint32
}

func (o *overhead) foreignClients() (*foreignClients, error) {
	c := &foreignClients{}
	for i := range c.channels {
		ch, err := o.bare.Channel()
		if err != nil {
			return nil, err
		}
		if err := ch.Confirm(false); err != nil {
			return nil, err
		}
		c.channels[i] = ch
	}
	_, err := c.channels[0].QueueDeclare(plainQueue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
	return c, err
}

// publish returns once everything is confirmed.
func (c *foreignClients) publish(ctx context.Context, exchange, key string, round int) error {
	body := make([]byte, lab.BodyBytes)
	return lab.Each(lab.FloodSize, lab.Publishers, func(i int) error {
		ch := c.channels[int(c.turn.Add(1))%len(c.channels)]
		confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, exchange, key, true, false, amqp.Publishing{
			MessageId: lab.LongID(round, i), DeliveryMode: amqp.Persistent, Body: body,
			Headers: amqp.Table{"x-delay": (lab.ParkedAhead + time.Duration(i)*time.Millisecond).Milliseconds()},
		})
		if err != nil {
			return err
		}
		ok, err := confirm.WaitContext(ctx)
		if err == nil && !ok {
			err = errors.New("not confirmed")
		}
		return err
	})
}

// throughInbox returns once everything is parked.
func (o *overhead) throughInbox(ctx context.Context, c *foreignClients, round int) error {
	before, err := o.parkedSoFar(ctx)
	if err != nil {
		return err
	}
	if err := c.publish(ctx, o.Topology.EntryExchange(), lab.RoutingKey, round); err != nil {
		return err
	}
	for deadline := time.Now().Add(lab.Patience); ; time.Sleep(5 * time.Millisecond) {
		now, err := o.parkedSoFar(ctx)
		if err != nil {
			return err
		}
		if now-before >= lab.FloodSize {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d messages were parked after %v", now-before, lab.FloodSize, lab.Patience)
		}
	}
}

// parkedSoFar counts the messages that were ever parked: each is one HSETNX.
func (o *overhead) parkedSoFar(ctx context.Context) (n int, err error) {
	stats, err := o.Client.Info(ctx, "commandstats").Result()
	if err != nil {
		return 0, err
	}
	_, calls, parked := strings.Cut(stats, "cmdstat_hsetnx:calls=")
	if parked {
		_, err = fmt.Sscanf(calls, "%d", &n)
	}
	return n, err
}
