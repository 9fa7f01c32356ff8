// Package topology describes the exchanges, tiers, lanes and queues of a delay
// bridge, and plans, applies, verifies, prunes and deletes them on a broker.
//
// The description ([New]) is pure: the same configuration always gives the same
// entities, and nothing is asked of a server.
//
//	publisher --x-delay--> entry exchange --equals a tier--> tier 30m --TTL--> ready exchange --> your queue
//	                            | anything else                                   ^     | not bound by a queue
//	                            v                                                 |     v
//	                          inbox --> Redis --at due - T--> lane of tier T -----+  unrouted
//
// Each [Entry] beside the default one has an entry exchange and a ready exchange
// of its own. All of them share a second set of tiers and lanes; due.go says how a
// message finds its ready exchange. A tracked entry is not bound to tiers: all that is
// published to it takes the way through the inbox.
//
// A tier takes the messages whose delay is exactly its TTL. Promoted messages
// enter lanes of their own, because a queue expires messages only at its head:
// a message promoted late, with less than the full TTL left, would wait in the
// tier behind messages that entered meanwhile. Each lane has one writer, the
// owner of its shard, which publishes in due order; so no message in a lane
// waits for another one.
package topology

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/topology/internal/rabbitmq"
)

// Defaults of [Config].
const (
	defaultPrefix = "delaybridge"
	defaultLead   = time.Minute
	defaultShards = 4
)

// Limits of [Config].
const (
	// maxTTL is the longest TTL of a tier. The broker's own limit for
	// x-message-ttl is 2^32-1 ms on the oldest version served (3.10).
	maxTTL = time.Duration(1<<32-1) * time.Millisecond
	// maxShards bounds the number of lanes, each of which is a quorum queue.
	maxShards = 64
	maxName   = 100 // of a prefix or an entry
	reserved  = "amq"
)

// Defaults returns a Config with all defaults.
func Defaults() Config {
	return Config{
		Prefix: defaultPrefix, Lead: defaultLead, Shards: defaultShards,
		Tiers: []time.Duration{
			time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second,
			time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour,
		},
	}
}

// Config says what the topology is to look like. The zero value is the default.
type Config struct {
	// Prefix starts the name of every exchange and queue, so that several
	// bridges can share a virtual host. Letters, digits, '.', '_' and '-';
	// at most 100. Defaults to "delaybridge".
	Prefix string
	// Tiers are the TTLs of the tiers, in whole milliseconds, in any order.
	// Defaults to 1s, 5s, 10s, 30s, 1m, 5m, 10m, 30m and 1h.
	Tiers []time.Duration
	// Lead is how long before its due time a parked message may be promoted:
	// tiers with a TTL up to Lead have lanes. A longer lead lets bridges stand
	// still for longer without a late message; a shorter one keeps messages
	// cancellable in Redis for longer. Defaults to a minute.
	Lead time.Duration
	// Shards is the number of lanes per tier and of shards in Redis, where a prefix
	// begins. It must be the same for all bridges and producers of one prefix, until
	// it was changed there (redisbridge.Park.BeginReshard): then that number counts.
	// 1 to 64. Defaults to 4.
	Shards int
	// Entries are the entry exchanges beside the default one, in any order.
	// Defaults to none.
	Entries []Entry
	// Tracked makes the default entry a tracked one: see Entry.Tracked. Defaults
	// to false.
	Tracked bool
}

// Tier is a queue with one fixed TTL, and an exchange of the same name that
// leads to it and leaves the routing key alone.
type Tier struct {
	Name string // of the queue and of the exchange
	TTL  time.Duration
}

// Topology is a valid, immutable description. Make one with [New].
type Topology struct {
	prefix  string
	tiers   []Tier // ascending by TTL
	lead    time.Duration
	shards  int
	entries []Entry   // sorted by name
	tracked bool      // the default entry is
	outward []Binding // to queues and exchanges of others
}

var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

const nameRule = "use 1 to %d letters, digits, '.', '_' or '-', starting with a letter or digit"

func validName(name string) bool { return len(name) <= maxName && namePattern.MatchString(name) }

// New describes the topology for c. The error names every fault of c at once.
func New(c Config) (*Topology, error) {
	if c.Prefix == "" {
		c.Prefix = defaultPrefix
	}
	if len(c.Tiers) == 0 {
		c.Tiers = Defaults().Tiers
	}
	if c.Lead == 0 {
		c.Lead = defaultLead
	}
	if c.Shards == 0 {
		c.Shards = defaultShards
	}
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }

	if !validName(c.Prefix) {
		fault("topology: prefix %q: "+nameRule, c.Prefix, maxName)
	}
	if c.Prefix == reserved || strings.HasPrefix(c.Prefix, reserved+".") {
		fault("topology: prefix %q: the broker keeps names that start with %q to itself", c.Prefix, reserved+".")
	}
	ttls := slices.Sorted(slices.Values(c.Tiers))
	for i, ttl := range ttls {
		switch {
		case ttl <= 0:
			fault("topology: tier %v: a TTL must be longer than 0", ttl)
		case ttl%time.Millisecond != 0:
			fault("topology: tier %v: a TTL is a whole number of milliseconds", ttl)
		case ttl > maxTTL:
			fault("topology: tier %v: the longest TTL is %v; longer delays wait in Redis", ttl, maxTTL)
		case i > 0 && ttl == ttls[i-1]:
			fault("topology: tier %v is listed twice", ttl)
		}
	}
	if c.Lead < 0 {
		fault("topology: lead %v: must not be negative", c.Lead)
	} else if c.Lead < ttls[0] {
		fault("topology: lead %v is shorter than the smallest tier %v, so no message could be promoted into a lane: raise the lead or add a tier", c.Lead, ttls[0])
	}
	if c.Shards < 1 || c.Shards > maxShards {
		fault("topology: %d shards: use 1 to %d", c.Shards, maxShards)
	}
	entries, wrong := checkEntries(c.Entries)
	if err := errors.Join(append(faults, wrong...)...); err != nil {
		return nil, err
	}

	t := &Topology{prefix: c.Prefix, lead: c.Lead, shards: c.Shards, entries: entries, tracked: c.Tracked}
	for _, ttl := range ttls {
		t.tiers = append(t.tiers, Tier{Name: t.tierOf("", ttl), TTL: ttl})
	}
	return t, nil
}

func (t *Topology) name(parts ...string) string {
	return t.prefix + "." + strings.Join(parts, ".")
}

// Prefix returns what every name starts with.
func (t *Topology) Prefix() string { return t.prefix }

// Shards returns the number of lanes per tier, and of shards in Redis.
func (t *Topology) Shards() int { return t.shards }

// WithShards returns t with another number of shards: 1 to 64.
func (t *Topology) WithShards(n int) (*Topology, error) {
	if n < 1 || n > maxShards {
		return nil, fmt.Errorf("topology: %d shards: use 1 to %d", n, maxShards)
	}
	other := *t
	other.shards = n
	return &other, nil
}

// EntryExchange is where publishers in any language send, with a delay in
// header x-delay or x-deliver-at.
func (t *Topology) EntryExchange() string { return t.name("entry") }

// ReadyExchange is the topic exchange to which consumers bind their queues, by
// the original routing key. Each of [Topology.Entries] has another one.
func (t *Topology) ReadyExchange() string { return t.name("ready") }

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

// Shown is the name of the queue by which a bridge shows a text in the management UI
// (redisbridge.Config.ShowEvery), in front of all other queues of the topology, which it
// is no part of.
func (t *Topology) Shown(text string) string { return t.name("(" + text + ")") }

// Quarantine is the queue, and the exchange before it, for messages that
// cannot be processed.
func (t *Topology) Quarantine() string { return t.name("quarantine") }

// Tiers returns the tiers, shortest TTL first.
func (t *Topology) Tiers() []Tier { return slices.Clone(t.tiers) }

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

// sets names an entry of each set of tiers and lanes.
func (t *Topology) sets() []string {
	if len(t.entries) == 0 {
		return []string{""}
	}
	return []string{"", t.entries[0].Name} // they share one
}

// Tier returns the tier whose TTL is exactly delay.
func (t *Topology) Tier(delay time.Duration) (Tier, bool) {
	i, ok := slices.BinarySearchFunc(t.tiers, delay, func(tier Tier, d time.Duration) int {
		return cmp.Compare(tier.TTL, d)
	})
	if !ok {
		return Tier{}, false
	}
	return t.tiers[i], true
}

// Leads returns the TTLs of the tiers that have lanes, that is those up to the
// configured lead, shortest first. There is at least one.
func (t *Topology) Leads() []time.Duration {
	var leads []time.Duration
	for _, tier := range t.tiers {
		if tier.TTL <= t.lead {
			leads = append(leads, tier.TTL)
		}
	}
	return leads
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

// tierOf names the tier for messages of an entry, likewise.
func (t *Topology) tierOf(entry string, ttl time.Duration) string {
	if entry == "" {
		return t.name("tier", wire.TTLName(ttl))
	}
	return t.name("tier", wire.TTLName(ttl), ofEntries)
}

// ofEntries ends the names of the tiers and lanes that the entries beside the
// default one share.
const ofEntries = "entries"

// Exchanges returns every exchange, in the order in which to declare them: each
// comes after those it leads to, so the entry exchanges are the last.
func (t *Topology) Exchanges() []Exchange {
	door := func(queue string) Exchange {
		return Exchange{Name: queue, Kind: amqp.ExchangeFanout, About: t.aboutDoor(queue)}
	}
	exchanges := []Exchange{door(t.Unrouted()), door(t.Quarantine()), door(t.Inbox()), door(t.Command()), door(t.Installation())}
	for _, e := range t.allEntries() {
		exchanges = append(exchanges, Exchange{
			Name: t.ReadyExchangeOf(e.Name), Kind: e.Kind, Args: amqp.Table{rabbitmq.ArgAlternate: t.Unrouted()},
			About: t.aboutReady(t.EntryExchangeOf(e.Name)),
		})
	}
	exchanges = append(exchanges, Exchange{
		Name: t.RetryExchange(), Kind: amqp.ExchangeDirect, Args: amqp.Table{rabbitmq.ArgAlternate: t.Unrouted()}, About: t.aboutRetry(),
	})
	if len(t.entries) > 0 {
		exchanges = append(exchanges, t.dueExchanges()...)
	}
	for _, q := range t.waitingQueues() {
		exchanges = append(exchanges, door(q.Name))
	}
	for _, e := range t.allEntries() {
		exchanges = append(exchanges, Exchange{
			Name: t.EntryExchangeOf(e.Name), Kind: amqp.ExchangeHeaders, Args: amqp.Table{rabbitmq.ArgAlternate: t.Inbox()},
			About: t.aboutEntry(t.ReadyExchangeOf(e.Name), e.Tracked),
		})
	}
	return exchanges
}

// Queues returns every queue.
func (t *Topology) Queues() []Queue {
	return append([]Queue{
		{Name: t.Unrouted(), Args: keeping(), About: t.aboutUnrouted()},
		{Name: t.Quarantine(), Args: keeping(), About: t.aboutQuarantine()},
		{Name: t.Inbox(), Args: intake(t.Quarantine()), About: t.aboutInbox()},
		{Name: t.Command(), Args: intake(t.Quarantine()), About: t.aboutCommand()},
		{Name: t.Installation(), Args: keeping(), About: t.aboutInstallation()},
	}, t.waitingQueues()...)
}

// waitingQueues returns the tiers and the lanes. The default entry has its own,
// since the way out of the others' costs the broker more: of a tier on RabbitMQ 3.10,
// half its rate. Their arguments do not depend on which entries there are: they
// cannot be changed.
func (t *Topology) waitingQueues() []Queue {
	queues := t.waitingQueuesOf("", t.ReadyExchange(), t.ReadyExchange())
	if len(t.entries) > 0 {
		queues = append(queues, t.waitingQueuesOf(t.entries[0].Name, t.dueTiers(), t.dueLanes())...)
	}
	return queues
}

func (t *Topology) waitingQueuesOf(entry, tiersLeadTo, lanesLeadTo string) []Queue {
	var queues []Queue
	for _, tier := range t.tiers {
		queues = append(queues, Queue{
			Name: t.tierOf(entry, tier.TTL), Args: waiting(tier.TTL.Milliseconds(), tiersLeadTo), About: t.aboutTier(tier.TTL, tiersLeadTo),
		})
	}
	for _, ttl := range t.Leads() {
		for shard := range t.shards {
			queues = append(queues, Queue{
				Name: t.LaneOf(entry, ttl, shard), Args: waiting(ttl.Milliseconds(), lanesLeadTo), About: t.aboutLane(ttl, shard, lanesLeadTo),
			})
		}
	}
	return queues
}

// Bindings returns every binding.
func (t *Topology) Bindings() []Binding {
	var bindings []Binding
	for _, q := range t.Queues() {
		bindings = append(bindings, Binding{Source: q.Name, Destination: q.Name})
	}
	bindings = append(bindings, t.dueBindings()...)
	for _, e := range t.allEntries() {
		if !e.Tracked {
			bindings = append(bindings, t.shortcuts(e.Name)...)
		}
	}
	return bindings
}

// shortcuts are the bindings by which the broker alone serves what is published to an
// entry exchange. A tracked entry has none of them, so that all of it takes the
// alternate exchange, to the inbox.
func (t *Topology) shortcuts(entry string) []Binding {
	source := t.EntryExchangeOf(entry)
	bindings := []Binding{{
		Source: source, Destination: t.ReadyExchangeOf(entry), ToExchange: true, Args: matching(headerDelay, int64(0)),
	}}
	for _, tier := range t.tiers {
		bindings = append(bindings, Binding{
			Source: source, Destination: t.tierOf(entry, tier.TTL), Args: matching(headerDelay, tier.TTL.Milliseconds()),
		})
	}
	return bindings
}

// bypasses are the bindings that Apply and Repair remove: the shortcuts that a tracked
// entry has left from before it was one. Until they are gone, what matches them still
// comes out when it is due.
func (t *Topology) bypasses() []Binding {
	var bindings []Binding
	for _, e := range t.allEntries() {
		if e.Tracked {
			bindings = append(bindings, t.shortcuts(e.Name)...)
		}
	}
	return bindings
}

// bindingsOf returns the bindings that x is the source of.
func (t *Topology) bindingsOf(x Exchange) []Binding {
	return slices.DeleteFunc(t.Bindings(), func(b Binding) bool { return b.Source != x.Name })
}
