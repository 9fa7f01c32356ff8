package topology

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/topology/internal/rabbitmq"
	"github.com/delaybridge/delaybridge/topology/internal/removal"
)

// PruneOptions says what [Topology.Prune] goes by beside the broker.
type PruneOptions struct {
	// Wait is how long Prune waits for what is not empty yet. With 0 it removes what is empty,
	// for which it watches for a few times [SettleTime].
	Wait time.Duration
	// DryRun changes nothing.
	DryRun bool
	// Entries are removed even if they are in use: they have publishers, or queues that are
	// bound to their ready exchanges.
	Entries []string
	// Force removes also what a bridge with another configuration would put back, and tiers
	// and lanes into whose exchanges others publish.
	Force bool
	// Bridges returns the descriptions that the bridges at work go by, by the bridge's name;
	// nil where that is not known. Without Force, Prune ends with a [*BridgesError] where one
	// of them has what is to go. Defaults to no bridges.
	Bridges func(context.Context) (map[string]*Topology, error)
	// Parked returns how many messages of an entry wait in Redis. Without it, the ready
	// exchanges of entries stay.
	Parked func(ctx context.Context, entry string) (int, error)
	// Progress is told what Prune waits for, each time that it has looked. Defaults to nothing.
	Progress func([]Change)
}

// BridgesError says which bridges would put back what is to be removed, and what each has of it.
type BridgesError struct{ Bridges map[string][]string }

func (e *BridgesError) Error() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(e.Bridges)) {
		parts = append(parts, "bridge "+name+" "+hasOf(e.Bridges[name]))
	}
	return strings.Join(parts, "; ") + ": restart it with this configuration first, since it would put that back"
}

// hasOf says what a bridge has of what is to go; none means that its configuration is unknown.
func hasOf(names []string) string {
	const most = 3
	switch {
	case len(names) == 0:
		return "does not tell its configuration"
	case len(names) > most:
		return fmt.Sprintf("has %s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return "has " + strings.Join(names, ", ")
}

// Prune removes the tiers, lanes and entries that an earlier configuration with the same
// prefix has left, once they are empty. It changes nothing of what t describes, and messages
// go on to flow meanwhile.
//
// Of a tier or a lane it first removes the exchange and the bindings that lead into its
// queue: what its tier would have taken goes to the inbox then. Only when the queue is empty
// it deletes that: by AMQP, and by statistics of the management API that are newer, which
// count dead letters that are not confirmed yet. Of an entry it deletes the entry exchange
// first, and the ready exchange when the inbox, Redis, and the tiers and lanes that it shares with
// other entries have none of its messages any more. Of a shared queue that is known when the
// queue is seen empty, or when its TTL has passed.
//
// A publisher that still uses what was removed is refused with 404, and loses nothing. An
// entry that is in use stays, unless o names it. Prune may be interrupted at any point: another
// call goes on.
//
// It returns what it has removed, in this order, and what is left, also with an error; of a dry run, what it would
// remove, and what it would have to wait for. The Action of what is left is wait, or keep where others
// use it, so that waiting does not help. Its Details say why, and of a dry run its Kind may also be bridge.
func (t *Topology) Prune(ctx context.Context, channels Channels, m *Management, o PruneOptions) (removed, left []Change, err error) {
	for _, entry := range o.Entries {
		if t.HasEntry(entry) {
			return nil, nil, fmt.Errorf("topology: entry %q is configured, so that it cannot be pruned", entry)
		}
	}
	p := removal.Pruning{
		Names:      t,
		Due:        t.dueNames(),
		Left:       t.allLeftovers,
		IsWaiting:  t.waits,
		IsShared:   t.isShared,
		SettleTime: SettleTime,
		Wait:       o.Wait,
		DryRun:     o.DryRun,
		Named:      o.Entries,
		Force:      o.Force,
		PutBack:    o.putBack,
		Parked:     o.Parked,
	}
	for _, e := range t.entries {
		p.Configured = append(p.Configured, e.Name)
	}
	if o.Progress != nil {
		p.Progress = func(left []removal.Change) { o.Progress(changesOf(left)) }
	}
	done, waits, err := removal.Prune(ctx, channels, m, p)
	if err != nil {
		err = fmt.Errorf("topology: %w", err)
	}
	return changesOf(done), changesOf(waits), err
}

// putBack returns a BridgesError where a bridge would put back what is to go, or says so of a
// dry run.
func (o PruneOptions) putBack(ctx context.Context, queues, entries []string) (left []removal.Change, err error) {
	if o.Bridges == nil {
		return nil, nil
	}
	bridges, err := o.Bridges(ctx)
	if err != nil {
		return nil, err
	}
	others := map[string][]string{}
	for name, other := range bridges {
		if other == nil {
			others[name] = nil
			continue
		}
		var has []string
		for _, queue := range queues {
			if other.describes(id{kindQueue, queue}) {
				has = append(has, queue)
			}
		}
		for _, entry := range entries {
			if other.HasEntry(entry) {
				has = append(has, other.EntryExchangeOf(entry))
			}
		}
		if len(has) > 0 {
			others[name] = has
		}
	}
	switch {
	case len(others) == 0:
		return nil, nil
	case !o.DryRun:
		return nil, &BridgesError{others}
	}
	for _, name := range slices.Sorted(maps.Keys(others)) {
		left = append(left, removal.Change{
			Action: removal.ActionWait, Kind: "bridge", Name: name, Details: "it " + hasOf(others[name]) + ", and would put that back",
		})
	}
	return left, nil
}

// allLeftovers names the tiers and lanes, and the entries, that another configuration has left.
func (t *Topology) allLeftovers(queues map[string]rabbitmq.Queue, exchanges map[string]rabbitmq.Exchange) (waiting, entries []string) {
	for _, e := range t.withLeftEntries(exchanges).entries[len(t.entries):] {
		entries = append(entries, e.Name)
	}
	return t.leftovers(queues), entries
}

// leftovers names the tiers and lanes of other configurations with the same prefix,
// sorted. They are known by their arguments: a queue that others have called alike is
// theirs.
func (t *Topology) leftovers(queues map[string]rabbitmq.Queue) []string {
	described := map[string]bool{}
	for _, q := range t.Queues() {
		described[q.Name] = true
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(queues)), func(name string) bool {
		return described[name] || !t.waits(name) || !t.waitsBy(queues[name])
	})
}

// waitsBy reports whether a queue has the arguments of a tier or a lane.
func (t *Topology) waitsBy(q rabbitmq.Queue) bool {
	ttl, ok := rabbitmq.Number(q.Arguments[rabbitmq.ArgMessageTTL])
	if !ok {
		return false
	}
	return slices.ContainsFunc([]string{t.ReadyExchange(), t.dueTiers(), t.dueLanes()}, func(leadsTo string) bool {
		for name, value := range waiting(ttl, leadsTo) {
			if rabbitmq.Text(q.Arguments[name]) != rabbitmq.Text(value) {
				return false
			}
		}
		return true
	})
}

// isShared reports whether a queue is a tier or a lane that the entries beside the default one
// share.
func (t *Topology) isShared(q rabbitmq.Queue) bool {
	return t.waits(q.Name) && strings.HasSuffix(q.Name, "."+ofEntries) && t.waitsBy(q)
}

// withLeftEntries describes, besides, the entries of another configuration with
// the same prefix that it has left on the broker. It knows their exchanges by
// name and alternate exchange.
func (t *Topology) withLeftEntries(exchanges map[string]rabbitmq.Exchange) *Topology {
	wider := *t
	wider.entries = t.Entries()
	for _, name := range slices.Sorted(maps.Keys(exchanges)) {
		ready, isReady := strings.CutPrefix(name, t.name("ready", ""))
		entry, isEntry := strings.CutPrefix(name, t.name("entry", ""))
		x := exchanges[name]
		e := Entry{Name: ready, Kind: x.Type}
		alternate := t.Unrouted()
		if isEntry {
			kind := cmp.Or(exchanges[t.name("ready", entry)].Type, amqp.ExchangeTopic)
			e, alternate = Entry{Name: entry, Kind: kind}, t.Inbox()
		}
		if (!isReady && !isEntry) || x.Arguments[rabbitmq.ArgAlternate] != alternate || !validName(e.Name) || wider.HasEntry(e.Name) {
			continue
		}
		wider.entries = append(wider.entries, e)
	}
	return &wider
}
