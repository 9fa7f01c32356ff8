// Package commands carries out what clients in any language ask for over AMQP: to cancel,
// reschedule and look up messages.
package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/sleep"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge/internal/upkeep"
	"github.com/delaybridge/delaybridge/topology"
)

const (
	// prefetch is how many commands are carried out at a time.
	prefetch = 64
	// steady is how long consuming lasts that did not end over the commands it began with.
	steady = 10 * time.Second
	// answerChannels is how many queues that take no answers hold up no others.
	answerChannels = 16
	// answerWithin is how long a queue may take to have an answer.
	answerWithin = 10 * time.Second
	// retryPause is between two tries.
	retryPause = 500 * time.Millisecond
)

// Config of [Commands].
type Config struct {
	Topology *topology.Topology
	Bridge   string // its ID
	// Publish is the connection to answer over, and Consume that to consume over.
	Publish, Consume *broker.Conn
	// Do carries out a command, and returns a result for each message. Its error means that it may
	// succeed later. Doing it again is harmless.
	Do func(context.Context, *Request) ([]any, error)
	// Record takes down what has changed something, and what came of it.
	Record func(context.Context, *Request, []any)

	DrainTimeout, RepairEvery time.Duration

	Repairs *upkeep.Repairs
	Logger  *slog.Logger
}

// Commands carries out commands.
type Commands struct {
	config      Config
	interrupted string // why commands are not consumed, or empty
	waits       atomic.Bool
	done        atomic.Int64
}

// New does no I/O.
func New(c Config) *Commands { return &Commands{config: c} }

// Done is how many were carried out, or answered with an error, since the start.
func (c *Commands) Done() int64 { return c.done.Load() }

// Run carries out commands until ctx ends, and then finishes what it has begun, for
// DrainTimeout at most. A command is acknowledged once it is carried out and answered, so a crash
// in between has it carried out again.
//
// Without permission to consume them it waits until there is one: a bridge of before there were
// commands may have a user who lacks it. What cuts it short again and again has the
// same precaution as in the inbox (see package intake).
func (c *Commands) Run(ctx context.Context) {
	work, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(c.config.DrainTimeout, end) })()
	answers := broker.NewPool(c.config.Publish, answerChannels)
	probation := false
	for ctx.Err() == nil {
		began := time.Now()
		err := c.consume(ctx, work, answers, probation)
		probation = err != nil && time.Since(began) < steady
		if err == nil || ctx.Err() != nil {
			continue
		}
		c.config.Repairs.Consider(err)
		if text := err.Error(); text != c.interrupted {
			c.interrupted = text
			c.config.Logger.Warn("commands are not carried out for now; it is tried again until it works", "queue", c.config.Topology.Command(), "error", err)
		}
		wait := retryPause
		if errors.Is(err, broker.ErrForbidden) {
			wait = c.config.RepairEvery
		}
		sleep.For(ctx, wait)
	}
}

// consume consumes over one channel until that or ctx ends, and returns nil with ctx, or where
// the probation is over.
func (c *Commands) consume(ctx, work context.Context, answers *broker.Pool, probation bool) error {
	queue := c.config.Topology.Command()
	ch, err := c.config.Consume.Channel(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if ctx.Err() == nil { // otherwise the connection is about to end
			_ = ch.Close()
		}
	}()
	window := prefetch
	var calm <-chan time.Time
	if probation {
		window, calm = 1, time.After(steady)
	}
	if err := ch.Qos(window, 0, false); err != nil {
		return broker.Classify(err)
	}
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	deliveries, err := ch.Consume(queue, wire.CommandTag(c.config.Bridge), false, false, false, false, nil)
	if err != nil {
		return broker.Classify(err)
	}
	if c.interrupted != "" {
		c.interrupted = ""
		c.config.Logger.Info("commands are carried out again")
	}
	var hands sync.WaitGroup
	defer hands.Wait()
	// RabbitMQ 3.10, with a node down, does not tell a consumer that its queue was deleted.
	look := time.NewTicker(c.config.RepairEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-calm:
			return nil
		case <-look.C:
			if q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil); err != nil {
				return broker.Classify(err)
			} else if q.Consumers == 0 {
				return upkeep.ErrConsumerCancelled
			}
		case d, ok := <-deliveries:
			if ok {
				hands.Go(func() { c.carryOut(ctx, work, answers, &d) })
				continue
			}
			select {
			case reason := <-closed:
				if reason != nil {
					return broker.Classify(reason)
				}
			default:
			}
			return upkeep.ErrConsumerCancelled
		}
	}
}

// carryOut does what a command asks for, answers, and acknowledges it. Once ctx has ended, what
// cannot be done at once is left to another bridge.
func (c *Commands) carryOut(ctx, work context.Context, answers *broker.Pool, d *amqp.Delivery) {
	request, err := parse(d)
	if reason := broker.Undecodable(d); reason != "" {
		err = fmt.Errorf("its headers cannot be decoded: %s", reason)
	}
	if err == nil && !c.config.Topology.HasEntry(request.Entry) {
		err = fmt.Errorf("entry %q is not configured: use one of the bridges' setting entries", request.Entry)
	}
	if err != nil {
		if c.refuse(ctx, work, answers, d, err) {
			c.settle(d)
		}
		return
	}
	for {
		results, err := c.config.Do(work, request)
		if err == nil {
			c.goesOn()
			if request.Kind != Get {
				c.config.Record(work, request, results)
			}
			c.answer(work, answers, d, results)
			c.settle(d)
			return
		}
		if ctx.Err() != nil || work.Err() != nil {
			return
		}
		c.stays(err)
		sleep.For(work, retryPause)
	}
}

func (c *Commands) settle(d *amqp.Delivery) {
	if d.Ack(false) == nil { // otherwise it is carried out again
		c.done.Add(1)
	}
}

func (c *Commands) stays(err error) {
	if c.waits.CompareAndSwap(false, true) {
		c.config.Logger.Warn("commands wait, since they cannot be carried out for now", "error", err)
	}
}

func (c *Commands) goesOn() {
	if c.waits.CompareAndSwap(true, false) {
		c.config.Logger.Info("commands are carried out again")
	}
}

// answer tells the client the results. No one is told of an answer that no client takes: the
// client asks again, which is harmless.
func (c *Commands) answer(ctx context.Context, answers *broker.Pool, d *amqp.Delivery, results []any) {
	if !c.answerable(d) {
		return
	}
	body, err := json.Marshal(map[string]any{"results": results})
	if err == nil {
		err = c.send(ctx, answers, d, body)
	}
	if err != nil {
		c.config.Logger.Warn("the answer to a command was not delivered", "reply_to", d.ReplyTo, "correlation_id", d.CorrelationId, "error", err)
	}
}

// refuse answers a command that cannot be read with the reason. Where no client waits for an answer, or
// none takes it, it goes to quarantine with the reason. It returns false if it is nowhere else.
func (c *Commands) refuse(ctx, work context.Context, answers *broker.Pool, d *amqp.Delivery, reason error) bool {
	if c.answerable(d) {
		body, err := json.Marshal(map[string]string{"error": reason.Error()})
		if err == nil {
			err = c.send(work, answers, d, body)
		}
		if err == nil {
			return true
		}
	}
	m := message.FromDelivery(d)
	publishing := m.Publishing(message.Journey{Path: wire.QuarantinePath, Queue: c.config.Topology.Command()})
	publishing.Headers[wire.HeaderError] = reason.Error()
	publishing.Headers[wire.HeaderQuarantined] = time.Now().UTC().Format(time.RFC3339)
	for {
		err := c.publish(work, answers, broker.Outgoing{
			Exchange: c.config.Topology.Quarantine(), RoutingKey: d.RoutingKey, Mandatory: true, Publishing: publishing,
		})
		if err == nil {
			return true
		}
		c.config.Repairs.Consider(err)
		if ctx.Err() != nil || work.Err() != nil {
			return false
		}
		c.stays(err)
		sleep.For(work, retryPause)
	}
}

// answerable reports whether an answer can be sent. None goes into a queue of the topology, where
// it would be taken for a message.
func (c *Commands) answerable(d *amqp.Delivery) bool {
	return d.ReplyTo != "" && !slices.ContainsFunc(c.config.Topology.Queues(), func(q topology.Queue) bool { return q.Name == d.ReplyTo })
}

func (c *Commands) send(ctx context.Context, answers *broker.Pool, d *amqp.Delivery, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	// To RabbitMQ a direct reply-to is no queue: it delivers a mandatory answer, and returns it, too.
	direct := strings.HasPrefix(d.ReplyTo, "amq.rabbitmq.reply-to.")
	return c.publish(ctx, answers, broker.Outgoing{RoutingKey: d.ReplyTo, Mandatory: !direct, Publishing: amqp.Publishing{
		ContentType: "application/json", Type: d.Type, CorrelationId: d.CorrelationId, Body: body,
	}})
}

// publish returns once the broker has answered.
func (c *Commands) publish(ctx context.Context, p *broker.Pool, out broker.Outgoing) error {
	answer := make(chan error, 1)
	if err := p.Publish(ctx, broker.Target{Exchange: out.Exchange, Key: out.RoutingKey}, out, func(err error) { answer <- err }); err != nil {
		return err
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
