package topology

import (
	"strconv"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/internal/wire"
)

func (t *Topology) name(parts ...string) string {
	return t.prefix + "." + strings.Join(parts, ".")
}

// EntryExchange is where publishers in any language send, with a delay in
// header x-delay or x-deliver-at.
func (t *Topology) EntryExchange() string { return t.name("entry") }

// EntryExchangeOf is where publishers of an entry send; "" is the default one.
// The entry need not be configured.
func (t *Topology) EntryExchangeOf(entry string) string {
	if entry == "" {
		return t.EntryExchange()
	}
	return t.name("entry", entry)
}

// EntryExchanges returns the names of all entry exchanges, that of the default one last.
func (t *Topology) EntryExchanges() []string {
	var names []string
	for _, e := range t.allEntries() {
		names = append(names, t.EntryExchangeOf(e.Name))
	}
	return names
}

// EntryOf returns the entry that an exchange belongs to, by its name, and "" for
// the default one and for exchanges that are no entry's. It need not be configured.
func (t *Topology) EntryOf(exchange string) string {
	if entry, ok := strings.CutPrefix(exchange, t.name("entry", "")); ok {
		return entry
	}
	return ""
}

// ReadyExchange is the topic exchange to which consumers bind their queues, by
// the original routing key. Each of [Topology.Entries] has another one.
func (t *Topology) ReadyExchange() string { return t.name("ready") }

// ReadyExchangeOf is where consumers of an entry bind their queues; "" is the
// default one. The entry need not be configured.
func (t *Topology) ReadyExchangeOf(entry string) string {
	if entry == "" {
		return t.ReadyExchange()
	}
	return t.name("ready", entry)
}

// RetryExchange is the direct exchange through which a message comes back to the
// queue whose consumer could not handle it: the queue is bound by its own name, and
// no other gets the message.
func (t *Topology) RetryExchange() string { return t.name("retry") }

// Inbox is the queue, and the exchange before it, for entry messages whose
// delay matches no tier.
func (t *Topology) Inbox() string { return t.name("inbox") }

// Command is the exchange to which clients publish commands, such as to cancel a message, and
// the queue behind it. Who may publish to an entry exchange need not be permitted to command.
func (t *Topology) Command() string { return t.name("command") }

// Installation is the queue, and the exchange before it, in which bridges keep one message: which
// installation the broker belongs to, and how far Redis is. By it they notice a Redis that was
// emptied, that was restored from an older backup, or that is another installation's.
func (t *Topology) Installation() string { return t.name("installation") }

// Unrouted is the queue, and the exchange before it, for due messages whose routing key
// no queue is bound by.
func (t *Topology) Unrouted() string { return t.name("unrouted") }

// Quarantine is the queue, and the exchange before it, for messages that
// cannot be processed.
func (t *Topology) Quarantine() string { return t.name("quarantine") }

// Shown is the name of the queue by which a bridge shows a text in the management UI
// (redisbridge.Config.ShowEvery), in front of all other queues of the topology, which it
// is no part of.
func (t *Topology) Shown(text string) string { return t.name("(" + text + ")") }

// TierQueues returns the queues of all tiers, shortest TTL first: those of the default
// entry, and those that the entries beside it share.
func (t *Topology) TierQueues() []Tier {
	var queues []Tier
	for _, tier := range t.tiers {
		for _, entry := range t.sets() {
			queues = append(queues, Tier{Name: t.tierOf(entry, tier.TTL), TTL: tier.TTL})
		}
	}
	return queues
}

// tierOf names the tier for messages of an entry, likewise.
func (t *Topology) tierOf(entry string, ttl time.Duration) string {
	if entry == "" {
		return t.name("tier", wire.TTLName(ttl))
	}
	return t.name("tier", wire.TTLName(ttl), ofEntries)
}

// TierOf returns the TTL of the tier that a queue is by its name, of this or another
// configuration with the same prefix.
func (t *Topology) TierOf(queue string) (ttl time.Duration, ok bool) {
	name, ok := strings.CutPrefix(queue, t.name("tier", ""))
	if !ok {
		return 0, false
	}
	ttl, err := time.ParseDuration(strings.TrimSuffix(name, "."+ofEntries))
	return ttl, err == nil && ttl > 0
}

// Lane names the queue, and the exchange before it, that a shard's promoted
// messages enter ttl before they are due. ttl must be one of [Topology.Leads].
func (t *Topology) Lane(ttl time.Duration, shard int) string {
	return t.name("lane", wire.TTLName(ttl), strconv.Itoa(shard))
}

// LaneOf is the lane for messages of an entry; "" is the default one. Those of all
// other entries share one. The entry need not be configured.
func (t *Topology) LaneOf(entry string, ttl time.Duration, shard int) string {
	if entry == "" {
		return t.Lane(ttl, shard)
	}
	return t.name("lane", wire.TTLName(ttl), strconv.Itoa(shard), ofEntries)
}

// ofEntries ends the names of the tiers and lanes that the entries beside the
// default one share.
const ofEntries = "entries"

// waits reports whether a tier or a lane has that name, of this or of another
// configuration with the same prefix.
func (t *Topology) waits(name string) bool {
	return strings.HasPrefix(name, t.name("tier", "")) || strings.HasPrefix(name, t.name("lane", ""))
}
