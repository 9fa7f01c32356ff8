package main

import (
	"context"
	"errors"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/servers/rabbitmq"
	"github.com/delaybridge/delaybridge/internal/usage"
)

// packages is where servers come from: processes on this machine, whose use of
// processor and memory can be read, and all three from one distribution.
func packages() servers.Config { return servers.Config{Choice: servers.Packages} }

// publishChannels is what the delay bridge's producer uses by default, too.
const publishChannels = 2

// prefetch bounds what a consumer holds without an acknowledgement.
const prefetch = 1000

const routingKey = "bench.message"

// rabbit is RabbitMQ and a client of it: confirmed publishing on one
// connection, one consumer on another.
type rabbit struct {
	server             *rabbitmq.Node
	publishes, consume *amqp.Connection
	channels           [publishChannels]*amqp.Channel
	turn               atomic.Uint32
}

func startRabbit(ctx context.Context) (*rabbit, error) {
	server, err := servers.StartRabbitMQ(ctx, packages())
	if err != nil {
		return nil, err
	}
	r := &rabbit{server: server}
	if err := r.dial(); err != nil {
		return nil, errors.Join(err, r.stop())
	}
	return r, nil
}

func (r *rabbit) dial() (err error) {
	if r.publishes, err = amqp.Dial(r.server.AMQPURL()); err != nil {
		return err
	}
	if r.consume, err = amqp.Dial(r.server.AMQPURL()); err != nil {
		return err
	}
	for i := range r.channels {
		if r.channels[i], err = r.publishes.Channel(); err != nil {
			return err
		}
		if err := r.channels[i].Confirm(false); err != nil {
			return err
		}
	}
	return nil
}

func (r *rabbit) stop() error {
	if r == nil {
		return nil
	}
	for _, c := range []*amqp.Connection{r.publishes, r.consume} {
		if c != nil {
			_ = c.Close()
		}
	}
	return r.server.Stop(context.Background())
}

// channel is for declarations.
func (r *rabbit) channel() *amqp.Channel { return r.channels[0] }

// publish returns once the broker has confirmed the message.
func (r *rabbit) publish(ctx context.Context, exchange, key string, m amqp.Publishing) error {
	m.DeliveryMode = amqp.Persistent
	ch := r.channels[int(r.turn.Add(1))%len(r.channels)]
	confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, exchange, key, true, false, m)
	if err != nil {
		return err
	}
	ok, err := confirm.WaitContext(ctx)
	if err == nil && !ok {
		err = errors.New("not confirmed")
	}
	return err
}

// deliver binds a quorum queue to an exchange and hands on what it gets.
func (r *rabbit) deliver(exchange, bindingKey string, deliver func([]byte)) error {
	return consume(r.consume, exchange, bindingKey, deliver)
}

// consume ends with the connection.
func consume(conn *amqp.Connection, exchange, bindingKey string, deliver func([]byte)) error {
	const out = "compare.out"
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if _, err := ch.QueueDeclare(out, true, false, false, false, amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum}); err != nil {
		return err
	}
	if err := ch.QueueBind(out, bindingKey, exchange, false, nil); err != nil {
		return err
	}
	if err := ch.Qos(prefetch, 0, false); err != nil {
		return err
	}
	deliveries, err := ch.Consume(out, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	go func() {
		for d := range deliveries {
			deliver(d.Body)
			_ = d.Ack(false)
		}
	}()
	return nil
}

// memory is the resident memory of the broker.
func (*rabbit) memory(context.Context) (map[string]float64, error) {
	resident, err := usage.Resident(usage.RabbitMQ)
	return map[string]float64{usage.RabbitMQ: resident}, err
}

// waiting are the arguments of a quorum queue that dead-letters at least once.
func waiting(deadLetterTo string) amqp.Table {
	return amqp.Table{
		amqp.QueueTypeArg:        amqp.QueueTypeQuorum,
		"x-dead-letter-strategy": "at-least-once",
		"x-overflow":             "reject-publish",
		"x-dead-letter-exchange": deadLetterTo,
	}
}
