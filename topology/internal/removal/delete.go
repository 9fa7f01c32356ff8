package removal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/topology/internal/rabbitmq"
)

const watchInterval = time.Second

// Deletion is what [Delete] removes.
type Deletion struct {
	// Queues are those that exist, in the order of their deletion: each comes before
	// those it leads to.
	Queues []string
	// Exchanges are all that exist. Delete takes out those that it has deleted.
	Exchanges map[string]rabbitmq.Exchange
	// Entrances are the exchanges that lead into queues, from the outermost on. They go
	// first.
	Entrances []string
	// Due and then Ready are the exchanges by which messages leave the queues: they go
	// after all queues but Last. With those in Ready go the bindings that others have made
	// to them.
	Due, Ready []string
	// Last are queues that go in the end, since messages may come to them until then.
	Last []string
	// WithMessages are queues that go even if they hold messages.
	WithMessages []string
	// SettleTime is how long the queues are watched after the entrances are closed.
	SettleTime time.Duration
	// Check says whether something beside the queues forbids the deletion. It is called
	// before anything is deleted, and once more after the queues were watched. Defaults
	// to nothing.
	Check func(context.Context) error
	// Held returns the error for queues that hold messages: how many each has.
	Held func(queues map[string]int) error
	// Reopen creates the entrances again.
	Reopen func(context.Context, *rabbitmq.Session) error
}

// Delete removes d, and returns what it removed. Where a queue holds messages that are not
// given up, or Check forbids it, it leaves everything as it was.
func Delete(ctx context.Context, channels rabbitmq.Channels, m rabbitmq.Management, d Deletion) ([]Change, error) {
	r := deletion{Deletion: d, session: rabbitmq.NewSession(channels), management: m, lost: map[string]int{}}
	defer r.session.Close()
	err := r.run(ctx)
	return r.changes, err
}

type deletion struct {
	Deletion
	session    *rabbitmq.Session
	management rabbitmq.Management
	lost       map[string]int // messages last seen in the queues that are given up
	changes    []Change
}

func (d *deletion) run(ctx context.Context) error {
	err := d.check(ctx)
	if err == nil {
		_, err = d.look(ctx)
	}
	if err != nil {
		return fmt.Errorf("nothing was deleted: %w", err)
	}
	err = d.closeEntrances(ctx)
	if err == nil {
		err = d.watch(ctx)
	}
	if err == nil {
		err = d.check(ctx)
	}
	if err != nil {
		return d.reopen(ctx, err)
	}
	return d.demolish(ctx)
}

func (d *deletion) check(ctx context.Context) error {
	if d.Check == nil {
		return nil
	}
	return d.Check(ctx)
}

// look returns the error of Held if a queue holds messages that must not be lost, or
// else the queues of which only AMQP is known.
func (d *deletion) look(ctx context.Context) (unknown []string, err error) {
	queues, err := rabbitmq.Queues(ctx, d.management)
	if err != nil {
		return nil, err
	}
	held := map[string]int{}
	for _, name := range d.Queues {
		n, err := d.ready(ctx, name)
		if err != nil {
			return nil, err
		}
		q, exists := queues[name]
		if q.Messages != nil {
			n = max(n, *q.Messages)
		}
		switch {
		case d.givenUp(name):
			d.lost[name] = n
		case n > 0:
			held[name] = n
		case exists && q.Messages == nil:
			unknown = append(unknown, name)
		}
	}
	if len(held) > 0 {
		return nil, d.Held(held)
	}
	return unknown, nil
}

// ready returns how many ready messages a queue has at this moment.
func (d *deletion) ready(ctx context.Context, name string) (n int, err error) {
	err = d.session.Do(ctx, func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
		n = q.Messages
		return err
	})
	if err != nil && !rabbitmq.Answered(err, amqp.NotFound) {
		return 0, fmt.Errorf("queue %s: %w", name, err)
	}
	return n, nil
}

// closeEntrances deletes the exchanges that lead into queues. Those that lead to
// consumers stay: dead letters may still be on their way through them.
func (d *deletion) closeEntrances(ctx context.Context) error {
	for _, name := range d.Entrances {
		if err := d.deleteExchange(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// watch waits until the statistics are newer than the closing of the entrances.
func (d *deletion) watch(ctx context.Context) error {
	if !slices.ContainsFunc(d.Queues, func(name string) bool { return !d.givenUp(name) }) {
		return nil
	}
	settled := time.Now().Add(d.SettleTime)
	for {
		unknown, err := d.look(ctx)
		switch {
		case err != nil:
			return err
		case time.Now().Before(settled):
		case len(unknown) > 0:
			return fmt.Errorf("the management API does not know what %s holds: is its leader up, and is the collection of statistics on?", strings.Join(unknown, ", "))
		default:
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(watchInterval):
		}
	}
}

// reopen undoes closeEntrances after cause has come in the way.
func (d *deletion) reopen(ctx context.Context, cause error) error {
	if len(d.changes) == 0 {
		return fmt.Errorf("nothing was deleted: %w", cause)
	}
	if err := d.Reopen(context.WithoutCancel(ctx), d.session); err != nil {
		return fmt.Errorf("the entrances are closed, nothing else was deleted; delaybridge topology apply opens them again: %w", errors.Join(cause, err))
	}
	d.changes = nil
	return fmt.Errorf("nothing was deleted, the entrances are open again: %w", cause)
}

// demolish deletes the queues and what is left of the exchanges. A message that
// was published to a ready exchange meanwhile may have become unrouted, so
// each queue is looked at once more.
func (d *deletion) demolish(ctx context.Context) error {
	for _, name := range d.Queues {
		if slices.Contains(d.Last, name) {
			continue
		}
		if err := d.deletePair(ctx, name); err != nil {
			return err
		}
	}
	if err := d.deleteReady(ctx); err != nil {
		return err
	}
	for _, name := range d.Last {
		if err := d.deletePair(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// deletePair deletes a queue, and before it the exchange of the same name.
func (d *deletion) deletePair(ctx context.Context, name string) error {
	if err := d.deleteExchange(ctx, name); err != nil {
		return err
	}
	return d.deleteQueue(ctx, name)
}

// deleteReady deletes the ready exchanges and the retry exchange, and with them the
// bindings that others have made to them, after the exchanges that lead there.
func (d *deletion) deleteReady(ctx context.Context) error {
	bindings, err := rabbitmq.Bindings(ctx, d.management)
	if err != nil {
		return err
	}
	for _, name := range d.Due {
		if err := d.deleteExchange(ctx, name); err != nil {
			return err
		}
	}
	for _, name := range d.Ready {
		if err := d.deleteExchange(ctx, name); err != nil {
			return err
		}
		for _, b := range bindings {
			if b.Source == name {
				d.deleted(rabbitmq.KindBinding, b.Name(), b.Details())
			}
		}
	}
	return nil
}

func (d *deletion) givenUp(queue string) bool { return slices.Contains(d.WithMessages, queue) }

func (d *deletion) deleted(kind, name, details string) {
	d.changes = append(d.changes, Change{ActionDelete, kind, name, details})
}

func (d *deletion) deleteExchange(ctx context.Context, name string) error {
	x, ok := d.Exchanges[name]
	if !ok {
		return nil
	}
	err := d.session.Do(ctx, func(ch *amqp.Channel) error { return ch.ExchangeDelete(name, false, false) })
	if err != nil {
		return fmt.Errorf("exchange %s: %w", name, err)
	}
	delete(d.Exchanges, name)
	d.deleted(rabbitmq.KindExchange, name, x.Type)
	return nil
}

// deleteQueue deletes a queue that is empty or given up. Quorum queues cannot
// be deleted on the condition that they are empty (540 NOT_IMPLEMENTED).
func (d *deletion) deleteQueue(ctx context.Context, name string) error {
	if !slices.Contains(d.Queues, name) {
		return nil
	}
	n, err := d.ready(ctx, name)
	if err != nil {
		return err
	}
	if n > 0 && !d.givenUp(name) {
		return fmt.Errorf("some of it is deleted already: %w", d.Held(map[string]int{name: n}))
	}
	err = d.session.Do(ctx, func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(name, false, false, false)
		return err
	})
	if err != nil {
		return fmt.Errorf("queue %s: %w", name, err)
	}
	details := "empty"
	if n = max(n, d.lost[name]); n > 0 {
		details = fmt.Sprintf("with %d messages", n)
	}
	d.deleted(rabbitmq.KindQueue, name, details)
	return nil
}
