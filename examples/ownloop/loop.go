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
	// pause is after how long what went wrong is tried again.
	pause = time.Second
)

// loop is the service's own consumer, as many have one.
type loop struct {
	url      string
	exchange string // which messages come out of when they are due
	handle   func(ctx context.Context, d *amqp.Delivery) (first bool, err error)
	log      *slog.Logger
}

// run consumes until ctx ends, and connects again as often as it takes.
func (l *loop) run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := l.consume(ctx); err != nil && ctx.Err() == nil {
			l.log.Warn("consuming was interrupted", "error", err, "retry_in", pause)
			wait(ctx)
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
	defer stop()
	var handlers errgroup.Group
	defer func() { _ = handlers.Wait() }() // each has told the log
	for {
		select {
		case <-ctx.Done():
			return nil
		case d, ok := <-deliveries:
			if !ok {
				return errors.New("the channel was closed")
			}
			handlers.Go(func() error {
				l.settle(ctx, &d)
				return nil
			})
		}
	}
}

// subscribe declares the queue, binds it where messages come out, and consumes it.
func (l *loop) subscribe(ch *amqp.Channel) (<-chan amqp.Delivery, error) {
	if _, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
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
// or not. What fails goes back to the queue.
func (l *loop) settle(ctx context.Context, d *amqp.Delivery) {
	first, err := l.handle(ctx, d)
	if err != nil {
		l.log.Warn("a message was not handled", "id", d.MessageId, "error", err)
		wait(ctx)
		_ = d.Nack(false, true) // if the channel is lost, the broker does the same
		return
	}
	if !first {
		l.log.Info("a duplicate was left without effect", "id", d.MessageId)
	}
	_ = d.Ack(false) // if the channel is lost, it comes again, and is a duplicate
}

// wait waits before another attempt.
func wait(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}
