package main

import (
	"context"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// queue is one quorum queue in which messages wait with an expiration each, and
// which hands them to the consumer's exchange at least once.
//
// It is two of the contenders. With delays of any length it is what many begin
// with: a queue expires messages only at its head, so that each waits for those
// before it. With one and the same delay it is the limit: nothing but the broker,
// and nothing waits for anything.
type queue struct{ *rabbit }

const (
	waitingQueue = "compare.waiting"
	readyName    = "compare.ready"
)

func (q *queue) start(ctx context.Context, deliver func([]byte)) (err error) {
	if q.rabbit, err = startRabbit(ctx); err != nil {
		return err
	}
	if err := q.channel().ExchangeDeclare(readyName, amqp.ExchangeTopic, true, false, false, false, nil); err != nil {
		return err
	}
	if err := q.channel().ExchangeDeclare(waitingQueue, amqp.ExchangeFanout, true, false, false, false, nil); err != nil {
		return err
	}
	if _, err := q.channel().QueueDeclare(waitingQueue, true, false, false, false, waiting(readyName)); err != nil {
		return err
	}
	if err := q.channel().QueueBind(waitingQueue, "", waitingQueue, false, nil); err != nil {
		return err
	}
	return q.deliver(readyName, "#", deliver)
}

func (q *queue) publish(ctx context.Context, body []byte, delay time.Duration) error {
	return q.rabbit.publish(ctx, waitingQueue, routingKey, amqp.Publishing{
		Expiration: strconv.FormatInt(delay.Milliseconds(), 10), Body: body,
	})
}
