package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/cenkalti/backoff/v5"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
)

// ownDeliveryLimit is how often the broker delivers a message of a queue that
// the consumer has declared, before it moves the message to quarantine.
const ownDeliveryLimit = 20

// errQueueGone means that the consumer's own queue was deleted after it had
// been declared. The next session declares it again.
var errQueueGone = errors.New("the queue was deleted while it was being declared, bound or consumed")

// keepAsserted asserts the consumer's own queue and its bindings again and again
// until ctx ends. No other process knows them, and the broker does not tell a consumer that a
// binding was deleted, alone or with the ready exchange. What the broker
// refuses is logged and tried again, sooner than the next turn, since messages may
// be unrouted until it succeeds: the queue is consumed all the same.
func (r *run) keepAsserted(ctx context.Context) {
	select {
	case <-r.ready: // the first session has checked the topology, and done it all
	case <-ctx.Done():
	}
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval, retry.MaxInterval = max(minBackoff, r.config.RepairEvery/32), r.config.RepairEvery
	wait := r.config.RepairEvery
	for sleep(ctx, wait) {
		err := r.assert(ctx)
		if err == nil || ctx.Err() != nil {
			retry.Reset()
			wait = r.config.RepairEvery
			continue
		}
		wait = min(retry.NextBackOff(), r.config.RepairEvery)
		r.log.Warn("queue and bindings could not be asserted", "error", err, "retry_in", wait)
	}
}

// assert has a channel of its own, which a refusal closes.
func (r *run) assert(ctx context.Context) error {
	ch, err := r.consuming.Channel(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if ctx.Err() == nil { // otherwise the connection is about to end
			_ = ch.Close()
		}
	}()
	return r.declare(ch)
}

// declare makes what only the consumer knows of: its own queue, and the binding by which
// retries come back to it.
func (r *run) declare(ch *amqp.Channel) error {
	if err := r.declareAll(ch); err != nil {
		r.doubtful.Store(true)
		return err
	}
	r.doubtful.Store(false)
	return nil
}

func (r *run) declareAll(ch *amqp.Channel) error {
	if len(r.config.Bind) > 0 {
		if err := r.declareOwn(ch); err != nil {
			return err
		}
	}
	if r.config.Delayer != nil {
		return r.bindForRetries(ch)
	}
	return nil
}

// declareOwn makes the consumer's own queue and binds it. A message that kills its
// consumer again and again ends in quarantine, raw; without these arguments the
// broker would drop it after twenty deliveries (4.x), or go on for ever (3.x).
func (r *run) declareOwn(ch *amqp.Channel) error {
	args := amqp.Table{
		"x-queue-type":           "quorum",
		"x-delivery-limit":       int64(ownDeliveryLimit),
		"x-dead-letter-exchange": r.config.Topology.Quarantine(),
		"x-dead-letter-strategy": "at-least-once",
		// At-least-once needs it. There is no length limit, beyond which the queue would
		// refuse due messages and so hold up everybody's.
		"x-overflow": "reject-publish",
	}
	if r.config.SingleActive {
		args["x-single-active-consumer"] = true
	}
	_, err := ch.QueueDeclare(r.config.Queue, true, false, false, false, args)
	var refused *amqp.Error
	if errors.As(err, &refused) && refused.Code == amqp.PreconditionFailed {
		return fmt.Errorf("%w: %w", ErrQueueDiffers, err)
	}
	if err != nil {
		return broker.Classify(err)
	}
	for _, key := range r.config.Bind {
		if err := r.bind(ch, key, r.config.Topology.ReadyExchangeOf(r.config.Entry), r.config.BindArguments); err != nil {
			return err
		}
	}
	return nil
}

// bindForRetries has the queue get what comes back to it, by its name.
func (r *run) bindForRetries(ch *amqp.Channel) error {
	exchange := r.config.Topology.RetryExchange()
	err := r.bind(ch, r.config.Queue, exchange, nil)
	if errors.Is(err, broker.ErrForbidden) {
		return fmt.Errorf("bind the queue to %s for its retries, which takes write permission for the queue and read permission for the exchange: %w", exchange, err)
	}
	return err
}

// bind binds the queue. After something was missing it makes sure that the binding
// has an effect: RabbitMQ with Khepri looks an exchange up before it writes the binding
// (rabbit_db_binding:create), and one that is written while the exchange is being
// deleted is listed when the exchange is back, but routes nothing, and to bind once more
// changes nothing (seen with 4.3.6). Another one of the same key, added and taken away,
// makes both route; to take away the binding itself would leave a gap.
func (r *run) bind(ch *amqp.Channel, key, exchange string, args amqp.Table) error {
	if err := ch.QueueBind(r.config.Queue, key, exchange, false, args); err != nil {
		return r.classify(err)
	}
	if !r.doubtful.Load() {
		return nil
	}
	renewing := amqp.Table{"x-delaybridge-renewing": true} // tells the two apart
	maps.Copy(renewing, args)
	if err := ch.QueueBind(r.config.Queue, key, exchange, false, renewing); err != nil {
		return r.classify(err)
	}
	return r.classify(ch.QueueUnbind(r.config.Queue, key, exchange, renewing))
}

// classify is broker.Classify, but says whose matter a missing queue is.
func (c *Consumer) classify(err error) error {
	var closed *amqp.Error
	missing := errors.As(err, &closed) && closed.Code == amqp.NotFound && strings.Contains(closed.Reason, "NOT_FOUND - no queue ")
	switch {
	case missing && len(c.config.Bind) > 0:
		return fmt.Errorf("%w: %w", errQueueGone, err)
	case missing:
		return ErrNoQueue
	}
	return broker.Classify(err)
}
