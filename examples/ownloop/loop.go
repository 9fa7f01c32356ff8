package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"
)

const (
	queue      = "reminders"
	routingKey = "reminder.*"
	prefetch   = 50
	// attempts is how often a message is handled before it is quarantined: over about two
	// minutes. They must fit into RabbitMQ's consumer_timeout (30 minutes).
	attempts = 8
)

// loop is the service's own consumer, as many have one.
type loop struct {
	url        string
	exchange   string // which messages come out of when they are due
	quarantine string // the exchange for those that cannot be handled
	handle     func(ctx context.Context, d *amqp.Delivery) (first bool, err error)
	ping       func(ctx context.Context) error // whether the database can be reached
	pause      time.Duration                   // before the second attempt, twice that before the third
	log        *slog.Logger
}

// run consumes until ctx ends, and connects again as often as it takes. While the database
// is away it does not consume: each redelivery counts towards the queue's delivery limit on
// RabbitMQ up to 4.2.
func (l *loop) run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := l.ping(ctx)
		if err == nil {
			err = l.consume(ctx)
		}
		if err != nil && ctx.Err() == nil {
			l.log.Warn("consuming was interrupted", "error", err, "retry_in", l.pause)
			wait(ctx, l.pause)
		}
	}
	return nil
}

// consume consumes over one connection until it is lost or ctx ends. What is not
// acknowledged then, the broker delivers again.
func (l *loop) consume(ctx context.Context) error {
	if _, err := amqp.ParseURI(l.url); err != nil {
		return errors.New("the broker's URL cannot be parsed; want amqp://user:password@host:5672/vhost") // err quotes it, password and all
	}
	conn, err := amqp.Dial(l.url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	deliveries, err := l.subscribe(ch)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	handlers, ctx := errgroup.WithContext(ctx)
	defer func() {
		stop()
		_ = handlers.Wait() // only then the connection is closed
	}()
	for {
		select {
		case <-ctx.Done():
			return handlers.Wait()
		case d, ok := <-deliveries:
			if !ok {
				return errors.New("the channel was closed")
			}
			handlers.Go(func() error { return l.settle(ctx, &d) })
		}
	}
}

// subscribe declares the queue, binds it where messages come out, and consumes it. What is
// rejected, or ends the process again and again, dead-letters into the quarantine; without
// these arguments RabbitMQ would drop it. Give such a queue no length limit: one that is full
// and refuses messages holds up those of others.
func (l *loop) subscribe(ch *amqp.Channel) (<-chan amqp.Delivery, error) {
	if _, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{
		"x-queue-type":           "quorum",
		"x-delivery-limit":       int64(20),
		"x-dead-letter-exchange": l.quarantine,
		"x-dead-letter-strategy": "at-least-once",
		"x-overflow":             "reject-publish", // which the strategy needs
	}); err != nil {
		return nil, err
	}
	if err := ch.QueueBind(queue, routingKey, l.exchange, false, nil); err != nil {
		return nil, err
	}
	if err := ch.Qos(prefetch, 0, false); err != nil {
		return nil, err
	}
	return ch.Consume(queue, "", false, false, false, false, nil)
}

// settle handles a delivery and acknowledges it, whether it was the first with its ID
// or not. It holds what fails for some more attempts, and then rejects it: to give it back
// after each would lose it at the delivery limit on RabbitMQ 4.0 to 4.2, and never end on 4.3.
// An error means that the database is away, which is no fault of the message.
func (l *loop) settle(ctx context.Context, d *amqp.Delivery) error {
	for attempt, pause := 1, l.pause; ; attempt, pause = attempt+1, 2*pause {
		first, err := l.handle(ctx, d)
		if err == nil {
			if !first {
				l.log.Info("a duplicate was left without effect", "id", d.MessageId)
			}
			return d.Ack(false) // if the channel is lost, it comes again, and is a duplicate
		}
		if away := l.ping(ctx); away != nil {
			return away // which ends the session: the broker delivers all again
		}
		l.log.Warn("a message was not handled", "id", d.MessageId, "attempt", attempt, "error", err)
		if attempt == attempts {
			return d.Reject(false)
		}
		wait(ctx, pause)
	}
}

// wait waits before another attempt.
func wait(ctx context.Context, pause time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}
