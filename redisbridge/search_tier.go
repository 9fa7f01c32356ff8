package redisbridge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/topology"
)

// tierWalk goes through one tier.
type tierWalk struct {
	*search
	tier   topology.Tier
	ch     *amqp.Channel
	closed chan *amqp.Error
	most   int // so many it may hold
	left   int // of those that were there at the beginning, so many are still to come
	held   int // unacknowledged
	none   int // times in a row that there were no more

	consumers int
	counts    bool // the broker is one that counts how often a message is taken, since 4.3

	carrying int // so many are being parked
	carried  chan carried
	acked    int
}

// carried is what came of parking a message that was found.
type carried struct {
	amqp.Delivery
	parked bool
	err    error
}

// goOver looks at what is there until everything is found or seen, or a bound is reached.
func (w *tierWalk) goOver(ctx context.Context, deliveries <-chan amqp.Delivery) error {
	carrying, cancel := context.WithTimeout(ctx, w.bounds.Time+carryGrace)
	defer cancel()
	ticker, timeout := time.NewTicker(searchPoll), time.NewTimer(w.bounds.Time)
	defer ticker.Stop()
	defer timeout.Stop()
	var fault error
	for over := false; !over || w.carrying > 0; {
		next := deliveries
		if over || w.carrying == carriesAtOnce {
			next = nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fault, context.Cause(ctx))
		case reason := <-w.closed:
			return errors.Join(fault, cutShort(reason))
		case reason := <-w.unlocked:
			return errors.Join(fault, cutShort(reason))
		case <-timeout.C:
			w.unfinished(!over)
			over = true
		case c := <-w.carried:
			w.carrying--
			if err := w.settle(c); err != nil {
				fault, over = errors.Join(fault, err), true
			}
			over = over || !w.mayHave(w.tier)
		case d, ok := <-next:
			if !ok { // the reason is about to come
				deliveries = nil
				continue
			}
			w.take(carrying, d)
			over = w.left == 0
		case <-ticker.C:
			if over || w.carrying > 0 {
				continue
			}
			none, err := w.nothingComes()
			if err != nil {
				return errors.Join(fault, err)
			}
			over = none
		}
		if !over && w.carrying == 0 && w.held == w.most {
			w.unfinished(true)
			over = true
		}
	}
	return fault
}

func (w *tierWalk) unfinished(is bool) {
	if is {
		w.Unfinished = append(w.Unfinished, w.tier.Name)
	}
}

// take looks at a message, and has it parked if it is wanted. The others are forgotten
// here: the broker knows which they are.
func (w *tierWalk) take(ctx context.Context, d amqp.Delivery) {
	w.left--
	w.held++
	w.none = 0
	w.Looked++
	if _, again := d.Headers["x-acquired-count"]; again {
		w.counts = true
	}
	if _, wanted := w.wanted[d.MessageId]; !wanted {
		return
	}
	w.carrying++
	go func() {
		m := message.FromDelivery(&d)
		m.Entry = w.park.config.Topology.EntryOf(d.Exchange) // whatever the headers say
		var parked bool
		err := errTooLarge // as in the intake
		if message.HeaderBytes(m.Headers) <= message.MaxHeaderBytes {
			parked, err = w.park.carry(ctx, &m)
		}
		w.carried <- carried{d, parked, err} // has room for all
	}()
}

// settle takes a message out of the tier that Redis has now.
func (w *tierWalk) settle(c carried) error {
	if c.err != nil {
		return fmt.Errorf("park message %s: %w", c.MessageId, c.err)
	}
	if !c.parked {
		return nil
	}
	w.Found[c.MessageId] = w.tier.TTL
	delete(w.wanted, c.MessageId)
	if err := c.Ack(false); err != nil { // its consumer drops it
		return fmt.Errorf("%w: %w", ErrSearchCut, err)
	}
	w.held--
	w.acked++
	return nil
}

// nothingComes reports whether no more messages are to be had.
func (w *tierWalk) nothingComes() (bool, error) {
	ready, _, err := w.count(w.tier)
	if err != nil {
		return false, cutShort(nil)
	}
	w.none++
	if ready > 0 {
		w.none = 0
	}
	return w.none == timesNone, nil
}

// leave gives back what is held, and returns once the tier has it.
//
// To close the channel gives it back in order. That may forget acknowledgements, which
// AMQP does not confirm. To consume goes the same way and has an answer: before the
// second one all are on their way, and before the third one they are there.
func (w *tierWalk) leave() error {
	if w.acked >= acksSentOn {
		w.awaitAcks()
	}
	w.giveBack()
	_ = w.ch.Close()
	for deadline := time.Now().Add(leaveTimeout); ; {
		_, consumers, err := w.count(w.tier)
		switch {
		case err != nil:
			return cutShort(nil)
		case consumers == 0: // and with the consumer goes what it held
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("the broker has not said within %v that it has everything back: %w", leaveTimeout, ErrSearchCut)
		}
		pause(context.Background(), leavePoll)
	}
}

// giveBack gives back what is held, where to close the channel counts as a failed delivery:
// RabbitMQ 4.3 has that count travel with the message to the queues that it is handed over to,
// which may have a delivery limit. Before 4.3 what is given back like this is not in order.
func (w *tierWalk) giveBack() {
	if !w.counts {
		return
	}
	for n := range w.consumers {
		_ = w.ch.Cancel(searchTag(n+1), false)
	}
	_ = w.ch.Nack(0, true, true)
}

// awaitAcks returns when the acknowledgements are in the queue, if nothing goes wrong:
// otherwise its consumer drops what is still there.
func (w *tierWalk) awaitAcks() {
	ctx, cancel := context.WithTimeout(context.Background(), carryGrace)
	defer cancel()
	if w.remember(ctx, w.tier, min(w.most+acksBarriers, maxPrefetch)) != nil || w.ch.Qos(1, 0, false) != nil {
		return
	}
	for n := range acksBarriers {
		if _, err := w.ch.Consume(w.tier.Name, searchTag(n+2), false, false, false, false, nil); err != nil {
			return
		}
		w.consumers++
	}
}

// cutShort says why a channel is lost. The library ends the connection over what it
// cannot decode, and says so in the text alone.
func cutShort(reason *amqp.Error) error {
	switch {
	case reason == nil:
		return ErrSearchCut
	case !reason.Server && (strings.Contains(reason.Reason, amqp.ErrSyntax.Reason) || strings.Contains(reason.Reason, amqp.ErrFieldType.Reason)):
		return fmt.Errorf("there is a message that cannot be decoded, and nothing behind it can be reached: %w", reason)
	}
	return fmt.Errorf("%w: %w", ErrSearchCut, reason)
}
