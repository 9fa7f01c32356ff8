package topology

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/topology/internal/rabbitmq"
)

// Entry is an entry exchange beside the default one. What is published to it
// comes out of a ready exchange of its own.
type Entry struct {
	// Name ends the names of its two exchanges. The rules for Config.Prefix
	// apply.
	Name string
	// Kind is the type of its ready exchange: amqp.ExchangeDirect,
	// ExchangeTopic, ExchangeFanout or ExchangeHeaders.
	Kind string
	// Tracked means that the entry exchange has no bindings to tiers: all its messages
	// go through the inbox and Redis, whatever their delay, which costs a running bridge
	// and its latency. So each of them can be looked up, cancelled and rescheduled, and
	// the entry exchange may be the dead-letter exchange of a queue. Defaults to false:
	// what equals a tier needs the broker alone.
	Tracked bool
}

// kinds returns the types that a ready exchange may have.
func kinds() []string {
	return []string{amqp.ExchangeDirect, amqp.ExchangeTopic, amqp.ExchangeFanout, amqp.ExchangeHeaders}
}

// checkEntries returns the entries sorted by name, and every fault of theirs.
func checkEntries(entries []Entry) (sorted []Entry, faults []error) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	sorted = slices.SortedFunc(slices.Values(entries), func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	for i, e := range sorted {
		if !validName(e.Name) {
			fault("topology: entry %q: "+nameRule, e.Name, maxName)
		}
		if i > 0 && e.Name == sorted[i-1].Name {
			fault("topology: entry %q is listed twice", e.Name)
		}
		if !slices.Contains(kinds(), e.Kind) {
			fault("topology: entry %q: type %q of its ready exchange: use %s", e.Name, e.Kind, strings.Join(kinds(), ", "))
		}
	}
	return sorted, faults
}

// Entries returns the entry exchanges beside the default one, sorted by name.
func (t *Topology) Entries() []Entry { return slices.Clone(t.entries) }

// EntryExchangeOf is where publishers of an entry send; "" is the default one.
// The entry need not be configured.
func (t *Topology) EntryExchangeOf(entry string) string {
	if entry == "" {
		return t.EntryExchange()
	}
	return t.name("entry", entry)
}

// ReadyExchangeOf is where consumers of an entry bind their queues; "" is the
// default one. The entry need not be configured.
func (t *Topology) ReadyExchangeOf(entry string) string {
	if entry == "" {
		return t.ReadyExchange()
	}
	return t.name("ready", entry)
}

// EntryOf returns the entry that an exchange belongs to, by its name, and "" for
// the default one and for exchanges that are no entry's. It need not be configured.
func (t *Topology) EntryOf(exchange string) string {
	if entry, ok := strings.CutPrefix(exchange, t.name("entry", "")); ok {
		return entry
	}
	return ""
}

// HasEntry reports whether an entry is configured; "" always is.
func (t *Topology) HasEntry(entry string) bool {
	return entry == "" || slices.ContainsFunc(t.entries, func(e Entry) bool { return e.Name == entry })
}

// IsTracked reports whether an entry is a tracked one; "" is the default one. One that
// is not configured is not.
func (t *Topology) IsTracked(entry string) bool {
	return slices.ContainsFunc(t.allEntries(), func(e Entry) bool { return e.Name == entry && e.Tracked })
}

// EntryExchanges returns the names of all entry exchanges, that of the default one last.
func (t *Topology) EntryExchanges() []string {
	var names []string
	for _, e := range t.allEntries() {
		names = append(names, t.EntryExchangeOf(e.Name))
	}
	return names
}

// allEntries returns the default entry, whose name is empty, after the others.
func (t *Topology) allEntries() []Entry {
	return append(t.Entries(), Entry{Kind: amqp.ExchangeTopic, Tracked: t.tracked})
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
