package topology

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/topology/internal/rabbitmq"
)

// SettleTime is how long [Topology.Delete] watches the queues after it has
// closed the entrances. A queue tells the statistics every five seconds what it
// holds, and the management API collects these every five seconds.
const SettleTime = 12 * time.Second

const watchInterval = time.Second

// DeleteOptions says what may be lost.
type DeleteOptions struct {
	// WithMessages names the queues that are deleted even if they hold messages.
	WithMessages []string
	// Check says whether something beside the queues forbids the deletion, such as
	// messages that are parked in Redis. It is called before anything is deleted, and
	// once more when the entrances are closed and the queues were watched. Its error
	// ends the deletion, and everything is left as it was. Defaults to nothing.
	Check func(context.Context) error
}

// HeldError says which queues hold messages, though their loss was not agreed to.
type HeldError struct {
	// Queues has how many each holds: ready, unacknowledged, and dead letters not confirmed
	// yet.
	Queues map[string]int
}

func (e *HeldError) Error() string {
	var counts []string
	for _, name := range slices.Sorted(maps.Keys(e.Queues)) {
		counts = append(counts, fmt.Sprintf("queue %s still holds messages (%d)", name, e.Queues[name]))
	}
	return strings.Join(counts, ", ") + ": drain it, or name it to lose them"
}

// Delete removes everything described, and the tiers, lanes and entries that
// another configuration with the same prefix has left. It returns what it removed.
//
// It refuses with a [*HeldError], and leaves everything as it was, while any of
// these queues holds a message, unless o names that queue. First it looks; then
// it closes the entrances, the exchanges that lead into the queues, and watches
// for [SettleTime] whether a message appears; only then it deletes queues.
// Messages that are published meanwhile are refused with 404.
//
// AMQP alone cannot tell whether a queue is empty: it counts only messages that
// are ready, not those that are unacknowledged or dead-lettered but not yet
// confirmed, and a queue without a leader counts as empty. The management API
// knows all of them, but late. So it takes both, for the same virtual host.
func (t *Topology) Delete(ctx context.Context, channels Channels, m *Management, o DeleteOptions) ([]Change, error) {
	d := deletion{session: rabbitmq.NewSession(channels), management: m, options: o, lost: map[string]int{}}
	defer d.session.Close()
	if err := d.run(ctx, t); err != nil {
		return d.changes, fmt.Errorf("topology: %w", err)
	}
	return d.changes, nil
}

type deletion struct {
	session    *rabbitmq.Session
	management *Management
	options    DeleteOptions
	queues     []string // that exist, in the order of their deletion
	exchanges  map[string]rabbitmq.Exchange
	lost       map[string]int // messages last seen in the queues that are given up
	changes    []Change
}

func (d *deletion) run(ctx context.Context, t *Topology) error {
	t, err := d.survey(ctx, t)
	if err != nil {
		return err
	}
	if err = d.check(ctx); err == nil {
		_, err = d.look(ctx)
	}
	if err != nil {
		return fmt.Errorf("nothing was deleted: %w", err)
	}
	err = d.closeEntrances(ctx, t)
	if err == nil {
		err = d.watch(ctx)
	}
	if err == nil {
		err = d.check(ctx)
	}
	if err != nil {
		return d.reopen(ctx, t, err)
	}
	return d.demolish(ctx, t)
}

func (d *deletion) check(ctx context.Context) error {
	if d.options.Check == nil {
		return nil
	}
	return d.options.Check(ctx)
}

// survey finds out what there is to delete, and returns the description with
// the entries that are left.
func (d *deletion) survey(ctx context.Context, t *Topology) (*Topology, error) {
	queues, err := rabbitmq.Queues(ctx, d.management)
	if err != nil {
		return nil, err
	}
	if d.exchanges, err = rabbitmq.Exchanges(ctx, d.management); err != nil {
		return nil, err
	}
	described := t.Queues()
	slices.Reverse(described) // waiting queues before those they lead to
	for _, q := range described {
		if _, ok := queues[q.Name]; ok {
			d.queues = append(d.queues, q.Name)
		}
	}
	d.queues = append(t.leftovers(queues), d.queues...)
	for _, name := range d.options.WithMessages {
		if !slices.Contains(d.queues, name) {
			return nil, fmt.Errorf("queue %s, to be deleted with its messages, is none of the existing ones: %s", name, strings.Join(d.queues, ", "))
		}
	}
	d.options.WithMessages = append(slices.Clone(d.options.WithMessages), t.Installation()) // what it holds is the bridges' own
	return t.withLeftEntries(d.exchanges), nil
}

// look returns a HeldError if a queue holds messages that must not be lost, or
// else the queues of which only AMQP is known.
func (d *deletion) look(ctx context.Context) (unknown []string, err error) {
	queues, err := rabbitmq.Queues(ctx, d.management)
	if err != nil {
		return nil, err
	}
	held := map[string]int{}
	for _, name := range d.queues {
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
		return nil, &HeldError{held}
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
func (d *deletion) closeEntrances(ctx context.Context, t *Topology) error {
	exchanges := t.Exchanges()
	slices.Reverse(exchanges) // the entry exchanges first
	entrances := []string{t.Inbox(), t.Command()}
	for _, e := range t.allEntries() {
		entrances = append(entrances, t.EntryExchangeOf(e.Name))
	}
	for _, x := range exchanges {
		if slices.Contains(entrances, x.Name) || t.waits(x.Name) {
			if err := d.deleteExchange(ctx, x.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// watch waits until the statistics are newer than the closing of the entrances.
func (d *deletion) watch(ctx context.Context) error {
	if !slices.ContainsFunc(d.queues, func(name string) bool { return !d.givenUp(name) }) {
		return nil
	}
	settled := time.Now().Add(SettleTime)
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
func (d *deletion) reopen(ctx context.Context, t *Topology, cause error) error {
	if len(d.changes) == 0 {
		return fmt.Errorf("nothing was deleted: %w", cause)
	}
	if err := t.declare(context.WithoutCancel(ctx), d.session); err != nil {
		return fmt.Errorf("the entrances are closed, nothing else was deleted; delaybridge topology apply opens them again: %w", errors.Join(cause, err))
	}
	d.changes = nil
	return fmt.Errorf("nothing was deleted, the entrances are open again: %w", cause)
}

// demolish deletes the queues and what is left of the exchanges. A message that
// was published to a ready exchange meanwhile may have become unrouted, so
// each queue is looked at once more.
func (d *deletion) demolish(ctx context.Context, t *Topology) error {
	kept := []string{t.Inbox(), t.Command(), t.Installation(), t.Quarantine(), t.Unrouted()}
	for _, name := range d.queues {
		if slices.Contains(kept, name) {
			continue
		}
		if err := d.deletePair(ctx, name); err != nil {
			return err
		}
	}
	if err := d.deleteReady(ctx, t); err != nil {
		return err
	}
	for _, name := range kept {
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
func (d *deletion) deleteReady(ctx context.Context, t *Topology) error {
	bindings, err := rabbitmq.Bindings(ctx, d.management)
	if err != nil {
		return err
	}
	for _, x := range slices.Backward(t.dueExchanges()) {
		if err := d.deleteExchange(ctx, x.Name); err != nil {
			return err
		}
	}
	exchanges := []string{t.RetryExchange()}
	for _, e := range t.allEntries() {
		exchanges = append(exchanges, t.ReadyExchangeOf(e.Name))
	}
	for _, name := range exchanges {
		if err := d.deleteExchange(ctx, name); err != nil {
			return err
		}
		for _, b := range bindings {
			if b.Source == name {
				d.deleted(kindBinding, b.Name(), b.Details())
			}
		}
	}
	return nil
}

func (d *deletion) givenUp(queue string) bool { return slices.Contains(d.options.WithMessages, queue) }

func (d *deletion) deleted(kind, name, details string) {
	d.changes = append(d.changes, Change{actionDelete, kind, name, details})
}

func (d *deletion) deleteExchange(ctx context.Context, name string) error {
	x, ok := d.exchanges[name]
	if !ok {
		return nil
	}
	err := d.session.Do(ctx, func(ch *amqp.Channel) error { return ch.ExchangeDelete(name, false, false) })
	if err != nil {
		return fmt.Errorf("exchange %s: %w", name, err)
	}
	delete(d.exchanges, name)
	d.deleted(kindExchange, name, x.Type)
	return nil
}

// deleteQueue deletes a queue that is empty or given up. Quorum queues cannot
// be deleted on the condition that they are empty (540 NOT_IMPLEMENTED).
func (d *deletion) deleteQueue(ctx context.Context, name string) error {
	if !slices.Contains(d.queues, name) {
		return nil
	}
	n, err := d.ready(ctx, name)
	if err != nil {
		return err
	}
	if n > 0 && !d.givenUp(name) {
		return fmt.Errorf("some of it is deleted already: %w", &HeldError{map[string]int{name: n}})
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
	d.deleted(kindQueue, name, details)
	return nil
}
