package world

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/quarantine"
	"github.com/delaybridge/delaybridge/internal/sleep"
	"github.com/delaybridge/delaybridge/topology"
)

const (
	// operatorEvery is how often the operator looks into the unrouted queue.
	operatorEvery = 5 * time.Second
	// replayWithin is what replaying may take.
	replayWithin = time.Minute
)

// ClearUnrouted sends on what came while the target was not bound, as an
// operator does.
func (w *World) ClearUnrouted() error {
	return w.WithChannel(func(ch *amqp.Channel) error {
		return sendOn(w.ctx, ch, w.Topology)
	})
}

// sendOn publishes what waits in the unrouted queue to the exchange from which it
// came there, and removes it only then: once, since it may come back.
func sendOn(ctx context.Context, ch *amqp.Channel, t *topology.Topology) error {
	if err := ch.Confirm(false); err != nil {
		return err
	}
	waiting, err := ch.QueueDeclarePassive(t.Unrouted(), true, false, false, false, nil)
	if err != nil {
		return err
	}
	for range waiting.Messages {
		d, ok, err := ch.Get(t.Unrouted(), false)
		if err != nil || !ok {
			return err
		}
		// What its publisher has forged must not count from now on.
		m := t.Message(&d)
		to, key := t.ReadyExchangeOf(m.Entry), m.RoutingKey
		if d.Exchange == t.RetryExchange() {
			to, key, m = d.Exchange, d.RoutingKey, m.Retry()
		}
		confirm, err := ch.PublishWithDeferredConfirm(to, key, false, false, m.Publishing(m.Journey))
		if err != nil {
			return err
		}
		if sent, err := confirm.WaitContext(ctx); err != nil || !sent {
			return fmt.Errorf("send %s on: not confirmed: %w", d.MessageId, err)
		}
		if err := d.Ack(false); err != nil {
			return err
		}
	}
	return nil
}

// AtLimit are the messages that the broker has given up since their delivery limit was reached.
func AtLimit() quarantine.Filter { return quarantine.Filter{Error: "delivery_limit"} }

// Replay sends what is in quarantine, and matches f, back to the queues that it came from.
func (w *World) Replay(ctx context.Context, f quarantine.Filter) error {
	q, err := quarantine.New(quarantine.Config{URL: w.Nodes[0].AMQPURL(), Topology: w.Topology, GiveUpAfter: replayWithin})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, replayWithin)
	defer cancel()
	return q.Replay(ctx, f, quarantine.Replaying{}, func(r quarantine.Replayed) error {
		if errors.Is(r.Err, quarantine.ErrUndecodable) { // as a stranger may send it
			return nil
		}
		return r.Err
	})
}

// Operate has an operator look after unrouted and quarantine until the returned function is called: what comes to the
// former while no queue is bound for it is sent on once one is, and what has reached its delivery limit is replayed,
// which may be after the fault has ended.
func (w *World) Operate(ctx context.Context) (leave func()) {
	ctx, cancel := context.WithCancel(ctx)
	var operator sync.WaitGroup
	operator.Go(func() {
		for ctx.Err() == nil {
			sleep.For(ctx, operatorEvery)
			// What is away now is there at another time.
			_ = w.ClearUnrouted()
			_ = w.Replay(ctx, AtLimit())
		}
	})
	return func() { cancel(); operator.Wait() }
}
