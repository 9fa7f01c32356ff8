package topology

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/topology/internal/rabbitmq"
)

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
