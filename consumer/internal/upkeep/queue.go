// Package upkeep keeps a consumer's queue in order at the broker. It declares and binds what no
// other process knows of, puts that back when it was deleted, and notices when the queue no
// longer knows its consumer.
package upkeep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/topology"
)

// ownDeliveryLimit is how often the broker delivers a message of a queue that
// the consumer has declared, before it moves the message to quarantine.
const ownDeliveryLimit = 20

// minPause is the shortest pause after a failure, give or take a half.
const minPause = 50 * time.Millisecond

// errGone means that the consumer's own queue was deleted after it had
// been declared. The next session declares it again.
var errGone = errors.New("the queue was deleted while it was being declared, bound or consumed")

// Config of a [Queue].
type Config struct {
	Topology *topology.Topology
	Conn     *broker.Conn
	Queue    string
	// Bind are the keys by which the queue is bound to the ready exchange of Entry, which is
	// of the type Kind, with Arguments. Without Bind the queue is not the consumer's own: it
	// is not declared, and must exist.
	Bind        []string
	Arguments   amqp.Table
	Entry, Kind string
	// SingleActive is an argument of the queue.
	SingleActive bool
	// Retries has the queue bound to the retry exchange, too.
	Retries bool
	// Every is the time between two repairs.
	Every time.Duration
	// ErrMissing is returned where a queue that is not the consumer's own does not exist,
	// and ErrDiffers where its own exists with other arguments.
	ErrMissing, ErrDiffers error
	Logger                 *slog.Logger
}

// Queue is the queue of one consumer.
type Queue struct {
	config   Config
	doubtful atomic.Bool // whether something was missing, and so bindings may have no effect
}

// New does no I/O.
func New(c Config) *Queue { return &Queue{config: c} }

// Open checks what the consumer needs before it declares anything. Then it declares and binds
// the queue, as far as that is the consumer's matter.
func (q *Queue) Open(ch *amqp.Channel) error {
	t := q.config.Topology
	for _, exchange := range []struct{ name, kind string }{
		{t.Quarantine(), amqp.ExchangeFanout}, {t.ReadyExchangeOf(q.config.Entry), q.config.Kind},
	} {
		if err := ch.ExchangeDeclarePassive(exchange.name, exchange.kind, true, false, false, false, nil); err != nil {
			q.doubtful.Store(true)
			return broker.Classify(err)
		}
	}
	return q.declare(ch)
}

// Keep asserts the consumer's own queue and its bindings again and again, from when opened is
// closed until ctx ends. No other process knows them, and the broker does not tell a consumer
// that a binding was deleted, alone or with the ready exchange. What the broker refuses is
// logged and tried again, sooner than the next turn, since messages may be unrouted until it
// succeeds: the queue is consumed all the same. Where there is nothing to assert, Keep returns
// at once.
func (q *Queue) Keep(ctx context.Context, opened <-chan struct{}) {
	if len(q.config.Bind) == 0 && !q.config.Retries {
		return
	}
	select {
	case <-opened: // the first session has checked the topology, and done it all
	case <-ctx.Done():
	}
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval, retry.MaxInterval = max(minPause, q.config.Every/32), q.config.Every
	wait := q.config.Every
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		err := q.assert(ctx)
		if err == nil || ctx.Err() != nil {
			retry.Reset()
			wait = q.config.Every
			continue
		}
		wait = min(retry.NextBackOff(), q.config.Every)
		q.config.Logger.Warn("queue and bindings could not be asserted", "error", err, "retry_in", wait)
	}
}

// assert has a channel of its own, which a refusal closes.
func (q *Queue) assert(ctx context.Context) error {
	ch, err := q.config.Conn.Channel(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if ctx.Err() == nil { // otherwise the connection is about to end
			_ = ch.Close()
		}
	}()
	return q.declare(ch)
}

// declare makes what only the consumer knows of: its own queue, and the binding by which
// retries come back to it.
func (q *Queue) declare(ch *amqp.Channel) error {
	if err := q.declareAll(ch); err != nil {
		q.doubtful.Store(true)
		return err
	}
	q.doubtful.Store(false)
	return nil
}

func (q *Queue) declareAll(ch *amqp.Channel) error {
	if len(q.config.Bind) > 0 {
		if err := q.declareOwn(ch); err != nil {
			return err
		}
	}
	if q.config.Retries {
		return q.bindForRetries(ch)
	}
	return nil
}

// declareOwn makes the consumer's own queue and binds it. A message that kills its
// consumer again and again ends in quarantine, raw; without these arguments the
// broker would drop it after twenty deliveries (4.x), or go on for ever (3.x).
func (q *Queue) declareOwn(ch *amqp.Channel) error {
	args := amqp.Table{
		"x-queue-type":           "quorum",
		"x-delivery-limit":       int64(ownDeliveryLimit),
		"x-dead-letter-exchange": q.config.Topology.Quarantine(),
		"x-dead-letter-strategy": "at-least-once",
		// At-least-once needs it. There is no length limit, beyond which the queue would
		// refuse due messages and so hold up everybody's.
		"x-overflow": "reject-publish",
	}
	if q.config.SingleActive {
		args["x-single-active-consumer"] = true
	}
	_, err := ch.QueueDeclare(q.config.Queue, true, false, false, false, args)
	var refused *amqp.Error
	if errors.As(err, &refused) && refused.Code == amqp.PreconditionFailed {
		return fmt.Errorf("%w: %w", q.config.ErrDiffers, err)
	}
	if err != nil {
		return broker.Classify(err)
	}
	for _, key := range q.config.Bind {
		if err := q.bind(ch, key, q.config.Topology.ReadyExchangeOf(q.config.Entry), q.config.Arguments); err != nil {
			return err
		}
	}
	return nil
}

// bindForRetries has the queue get what comes back to it, by its name.
func (q *Queue) bindForRetries(ch *amqp.Channel) error {
	exchange := q.config.Topology.RetryExchange()
	err := q.bind(ch, q.config.Queue, exchange, nil)
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
func (q *Queue) bind(ch *amqp.Channel, key, exchange string, args amqp.Table) error {
	if err := ch.QueueBind(q.config.Queue, key, exchange, false, args); err != nil {
		return q.Classify(err)
	}
	if !q.doubtful.Load() {
		return nil
	}
	renewing := amqp.Table{"x-delaybridge-renewing": true} // tells the two apart
	maps.Copy(renewing, args)
	if err := ch.QueueBind(q.config.Queue, key, exchange, false, renewing); err != nil {
		return q.Classify(err)
	}
	return q.Classify(ch.QueueUnbind(q.config.Queue, key, exchange, renewing))
}

// Classify is broker.Classify, but says whose matter a missing queue is.
func (q *Queue) Classify(err error) error {
	var closed *amqp.Error
	missing := errors.As(err, &closed) && closed.Code == amqp.NotFound && strings.Contains(closed.Reason, "NOT_FOUND - no queue ")
	switch {
	case missing && len(q.config.Bind) > 0:
		return fmt.Errorf("%w: %w", errGone, err)
	case missing:
		return q.config.ErrMissing
	}
	return broker.Classify(err)
}
