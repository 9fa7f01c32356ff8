package quarantine

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/topology"
)

const (
	// window is how many messages a consumer may hold. When it holds them all,
	// another one takes the next ones: so a walk may hold any number, and no more
	// than a window of them is on its way here.
	window = 500
	// perChannel is how many consumers share a channel. The broker goes through all
	// that is unacknowledged on a channel to find what is acknowledged; and a
	// connection has no more than two thousand channels.
	perChannel = 4
	// pollEvery is after how long without a message a walk asks whether there are
	// any. It has to hear this many times in a row that there are none, since what is
	// on its way here counts as gone, and patience is how often it asks in vain.
	pollEvery = 250 * time.Millisecond
	timesNone = 3
	patience  = 60
	// inFlight is how many messages may be on their way to the broker, and
	// drainTimeout how long to wait for its answers when the walk is over.
	inFlight     = 200
	drainTimeout = 10 * time.Second
)

// ErrCutShort means that the channel was lost. What was not reported is where it was,
// or there as well as at its destination.
var ErrCutShort = errors.New("cut short; run it again for the rest")

// walk goes once over what is in the queue.
type walk struct {
	topology   *topology.Topology
	queue      string
	consuming  *broker.Conn
	publishing *broker.Conn
	connect    func()          // has publishing connect
	running    context.Context //nolint:containedctx // of the connections, which outlive the command's

	asking     *amqp.Channel      // which consumes nothing
	channels   []*amqp.Channel    // which do
	lost       chan *amqp.Error   // why one of them is, or nil
	deliveries chan amqp.Delivery // of all consumers
	consumers  int
	left       int // how many of those that were there at the beginning are still to come
	held       int // unacknowledged
	matched    int
	quiet      int // times that pollEvery was over without a message
	none       int // times in a row that there were none

	pending int               // messages that are being published
	settled chan func() error // what is to be done about those that have an answer
}

// visitor is called with each message and what removes it. It returns false to end the
// walk.
type visitor func(m *Message, remove func() error) (bool, error)

// all walks until it has seen as many messages as were there when it began, or no more
// are there, and what was published has its answer.
func (w *walk) all(ctx context.Context, visit visitor) error {
	if err := w.begin(ctx); err != nil {
		return err
	}
	return errors.Join(w.goOver(ctx, visit), w.drain())
}

func (w *walk) goOver(ctx context.Context, visit visitor) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for w.left > 0 {
		deliveries := w.deliveries
		if w.pending == inFlight {
			deliveries = nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case reason := <-w.lost:
			return cutShort(reason)
		case settle := <-w.settled:
			w.pending--
			if err := settle(); err != nil {
				return err
			}
		case d := <-deliveries:
			w.quiet, w.none = 0, 0
			m, err := w.take(ctx, &d)
			if err != nil {
				return err
			}
			if on, err := visit(m, func() error { return w.remove(&d) }); err != nil || !on {
				return err
			}
		case <-ticker.C:
			if over, err := w.over(); err != nil || over {
				return err
			}
		}
	}
	return nil
}

// drain waits for the answers that are still to come.
func (w *walk) drain() error {
	timeout := time.NewTimer(drainTimeout)
	defer timeout.Stop()
	var faults []error
	for w.pending > 0 {
		select {
		case reason := <-w.lost:
			return errors.Join(append(faults, cutShort(reason))...)
		case settle := <-w.settled:
			w.pending--
			if err := settle(); err != nil {
				faults = append(faults, err)
			}
		case <-timeout.C:
			return errors.Join(append(faults, fmt.Errorf("no answer to %d messages, which are in quarantine still: %w", w.pending, ErrCutShort))...)
		}
	}
	return errors.Join(faults...)
}

// begin counts what there is and starts the first consumer.
func (w *walk) begin(ctx context.Context) error {
	w.lost = make(chan *amqp.Error)
	w.deliveries = make(chan amqp.Delivery)
	w.settled = make(chan func() error, inFlight)
	var err error
	if w.asking, err = w.consuming.Channel(ctx); err != nil {
		return err
	}
	if w.left, err = w.count(); err != nil || w.left == 0 {
		return err
	}
	return w.consume(ctx)
}

// count returns how many messages there are that no consumer holds.
func (w *walk) count() (int, error) {
	queue, err := w.asking.QueueDeclarePassive(w.queue, true, false, false, false, nil)
	return queue.Messages, broker.Classify(err)
}

// open opens one more channel.
func (w *walk) open(ctx context.Context) error {
	ch, err := w.consuming.Channel(ctx)
	if err != nil {
		return err
	}
	w.channels = append(w.channels, ch)
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	go func() { // ends with the channel
		select {
		case w.lost <- <-closed:
		case <-w.running.Done():
		}
	}()
	return broker.Classify(ch.Qos(window, 0, false))
}

// consume starts one more consumer, which brings its own window.
func (w *walk) consume(ctx context.Context) error {
	if w.consumers == perChannel*len(w.channels) {
		if err := w.open(ctx); err != nil {
			return err
		}
	}
	w.consumers++
	deliveries, err := w.channels[len(w.channels)-1].Consume(w.queue, tag(w.consumers), false, false, false, false, nil)
	if err != nil {
		return broker.Classify(err)
	}
	go func() { // ends with the channel
		for d := range deliveries {
			select {
			case w.deliveries <- d:
			case <-w.running.Done():
				return
			}
		}
	}()
	return nil
}

// take counts a message in.
func (w *walk) take(ctx context.Context, d *amqp.Delivery) (*Message, error) {
	w.left--
	w.held++
	if w.left > 0 && w.held == w.consumers*window {
		if err := w.consume(ctx); err != nil {
			return nil, err
		}
	}
	return read(w.topology, d), nil
}

// remove acknowledges a message.
func (w *walk) remove(d *amqp.Delivery) error {
	if err := d.Ack(false); err != nil {
		return fmt.Errorf("%w: %w", ErrCutShort, err)
	}
	w.held--
	return nil
}

// over reports whether no more messages are to be had: another consumer has taken them,
// or is looking at them.
func (w *walk) over() (bool, error) {
	if w.quiet++; w.quiet == 1 || w.pending > 0 { // the last one came a moment ago
		return false, nil
	}
	n, err := w.count()
	if err != nil {
		return false, err
	}
	if w.none++; n > 0 {
		w.none = 0
	}
	if w.quiet >= patience {
		return false, fmt.Errorf("the queue has %d messages and hands none out: %w", n, ErrCutShort)
	}
	return w.none == timesNone, nil
}

// cutShort says why a channel is lost.
func cutShort(reason *amqp.Error) error {
	if reason == nil {
		return ErrCutShort
	}
	return fmt.Errorf("%w: %w", ErrCutShort, reason)
}
