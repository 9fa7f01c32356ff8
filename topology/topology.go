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
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
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

// Tiers returns the tiers, shortest TTL first.
func (t *Topology) Tiers() []Tier { return slices.Clone(t.tiers) }

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

// Entries returns the entry exchanges beside the default one, sorted by name.
func (t *Topology) Entries() []Entry { return slices.Clone(t.entries) }

// HasEntry reports whether an entry is configured; "" always is.
func (t *Topology) HasEntry(entry string) bool {
	return entry == "" || slices.ContainsFunc(t.entries, func(e Entry) bool { return e.Name == entry })
}

// IsTracked reports whether an entry is a tracked one; "" is the default one. One that
// is not configured is not.
func (t *Topology) IsTracked(entry string) bool {
	return slices.ContainsFunc(t.allEntries(), func(e Entry) bool { return e.Name == entry && e.Tracked })
}

// allEntries returns the default entry, whose name is empty, after the others.
func (t *Topology) allEntries() []Entry {
	return append(t.Entries(), Entry{Kind: amqp.ExchangeTopic, Tracked: t.tracked})
}

// sets names an entry of each set of tiers and lanes.
func (t *Topology) sets() []string {
	if len(t.entries) == 0 {
		return []string{""}
	}
	return []string{"", t.entries[0].Name} // they share one
}
