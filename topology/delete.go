package topology

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/topology/internal/rabbitmq"
	"github.com/delaybridge/delaybridge/topology/internal/removal"
)

// SettleTime is how long [Topology.Delete] watches the queues after it has
// closed the entrances. A queue tells the statistics every five seconds what it
// holds, and the management API collects these every five seconds.
const SettleTime = 12 * time.Second

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
	d, err := t.deletion(ctx, m, o)
	if err != nil {
		return nil, fmt.Errorf("topology: %w", err)
	}
	changes, err := removal.Delete(ctx, channels, m, d)
	if err != nil {
		err = fmt.Errorf("topology: %w", err)
	}
	return changesOf(changes), err
}

// deletion finds out what there is to delete, and in which order it has to go.
func (t *Topology) deletion(ctx context.Context, m *Management, o DeleteOptions) (removal.Deletion, error) {
	queues, err := rabbitmq.Queues(ctx, m)
	if err != nil {
		return removal.Deletion{}, err
	}
	exchanges, err := rabbitmq.Exchanges(ctx, m)
	if err != nil {
		return removal.Deletion{}, err
	}
	existing := t.leftovers(queues)
	for _, q := range slices.Backward(t.Queues()) { // waiting queues before those they lead to
		if _, ok := queues[q.Name]; ok {
			existing = append(existing, q.Name)
		}
	}
	for _, name := range o.WithMessages {
		if !slices.Contains(existing, name) {
			return removal.Deletion{}, fmt.Errorf("queue %s, to be deleted with its messages, is none of the existing ones: %s", name, strings.Join(existing, ", "))
		}
	}
	wider := t.withLeftEntries(exchanges)
	d := removal.Deletion{
		Queues:       existing,
		Exchanges:    exchanges,
		Due:          wider.dueNames(),
		Ready:        []string{t.RetryExchange()},
		Last:         []string{t.Inbox(), t.Command(), t.Installation(), t.Quarantine(), t.Unrouted()},
		WithMessages: append(slices.Clone(o.WithMessages), t.Installation()), // what it holds is the bridges' own
		SettleTime:   SettleTime,
		Check:        o.Check,
		Held:         func(queues map[string]int) error { return &HeldError{queues} },
		Reopen:       wider.declare,
	}
	for _, x := range slices.Backward(wider.Exchanges()) { // the entry exchanges first
		if wider.isEntry(x.Name) || x.Name == t.Inbox() || x.Name == t.Command() || t.waits(x.Name) {
			d.Entrances = append(d.Entrances, x.Name)
		}
	}
	for _, e := range wider.allEntries() {
		d.Ready = append(d.Ready, t.ReadyExchangeOf(e.Name))
	}
	return d, nil
}

func changesOf(removed []removal.Change) []Change {
	var changes []Change
	for _, c := range removed {
		changes = append(changes, Change(c))
	}
	return changes
}
