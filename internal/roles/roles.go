// Package roles says what each kind of user has to be permitted on RabbitMQ and in Redis, and
// no more than that. It asks no server.
package roles

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/topology"
)

// Role is a kind of user.
type Role string

// The roles.
const (
	Publisher Role = "publisher" // publishes to entry exchanges, and parks
	Bridge    Role = "bridge"    // runs bridges, which put the topology in place
	Consumer  Role = "consumer"  // consumes queues of its own
	Operator  Role = "operator"  // looks, and replays what is in quarantine
	Relay     Role = "relay"     // sends what services put into their outbox
)

// All returns every role.
func All() []Role { return []Role{Publisher, Bridge, Consumer, Operator, Relay} }

// Scope says which part of an installation a user is for.
type Scope struct {
	// Entries are those that a publisher, a consumer or a relay is for; "" is the default
	// one. Defaults to that, and for a relay to all.
	Entries []string
	// Queues are those that a consumer consumes, or that an operator replays to.
	Queues []string
}

// Rights are what a user is permitted.
type Rights struct {
	// Tag is one of RabbitMQ's user tags, or empty.
	Tag string
	// Configure, Write and Read are patterns of names, as RabbitMQ takes them.
	Configure, Write, Read string
	// Redis are the rules of a Redis ACL, without user and password.
	Redis []string
}

// SetPermissions is the command that gives them to a user in a virtual host.
func (r Rights) SetPermissions(vhost, user string) string {
	words := []string{"rabbitmqctl set_permissions -p"}
	for _, word := range []string{vhost, user, r.Configure, r.Write, r.Read} {
		words = append(words, printable.Shell(word))
	}
	return strings.Join(words, " ")
}

// nothing matches no name that an exchange or a queue can have.
const nothing = "^$"

// Of returns the rights of a role. The error names every fault of s at once.
func Of(role Role, t *topology.Topology, s Scope) (Rights, error) {
	if !slices.Contains(All(), role) {
		return Rights{}, fmt.Errorf("role %q: use publisher, bridge, consumer, operator or relay", role)
	}
	if err := s.check(role, t); err != nil {
		return Rights{}, err
	}
	entries := s.Entries
	switch {
	case len(entries) == 0 && role == Relay:
		for _, e := range t.Entries() {
			entries = append(entries, e.Name)
		}
		entries = append(entries, "")
	case len(entries) == 0:
		entries = []string{""}
	}
	r := Rights{Configure: nothing, Write: nothing, Read: nothing, Redis: redisRules(role, t)}
	switch role {
	case Publisher:
		r.Write = exactly(t, each(entries, t.EntryExchangeOf)...)
	case Bridge:
		r.Configure = "^" + regexp.QuoteMeta(t.Prefix()+".")
		r.Write, r.Read = r.Configure, r.Configure
		r.Tag = "management" // it asks for policies, which AMQP does not show
	case Consumer:
		r.Configure = exactly(t, s.Queues...)
		// To bind a queue takes write on the queue and read on the exchange.
		r.Write = exactly(t, append(slices.Clone(s.Queues), t.Quarantine())...)
		r.Read = exactly(t, slices.Concat(s.Queues, each(entries, t.ReadyExchangeOf), []string{t.RetryExchange()})...)
	case Operator:
		r.Tag = "monitoring"
		back := []string{t.RetryExchange(), t.EntryExchange(), t.ReadyExchange()}
		for _, e := range t.Entries() {
			back = append(back, t.EntryExchangeOf(e.Name), t.ReadyExchangeOf(e.Name))
		}
		r.Write = exactly(t, append(slices.Clone(s.Queues), back...)...)
		r.Read = exactly(t, t.Quarantine(), t.Unrouted(), t.RetryExchange())
	case Relay: // all that is not due at once it parks
		r.Write = exactly(t, each(entries, t.ReadyExchangeOf)...)
	}
	return r, nil
}

// OfBridge returns the rights of a bridge, which depend on the prefix alone.
func OfBridge(t *topology.Topology) Rights {
	r, err := Of(Bridge, t, Scope{})
	if err != nil {
		panic(err) // there is no scope that could be wrong
	}
	return r
}

func (s Scope) check(role Role, t *topology.Topology) error {
	var faults []error
	if len(s.Entries) > 0 && role != Publisher && role != Consumer && role != Relay {
		faults = append(faults, fmt.Errorf("entry %q: a role %s has no entries: leave it out", s.Entries[0], role))
	}
	for _, entry := range s.Entries {
		if !t.HasEntry(entry) {
			faults = append(faults, fmt.Errorf("entry %q is not configured: use one of the setting entries", entry))
		}
	}
	switch {
	case role == Consumer && len(s.Queues) == 0:
		faults = append(faults, errors.New("queue is missing: name each queue that the consumer consumes"))
	case len(s.Queues) > 0 && role != Consumer && role != Operator:
		faults = append(faults, fmt.Errorf("queue %q: a role %s has no queues: leave it out", s.Queues[0], role))
	}
	for _, queue := range s.Queues {
		const longest = 255 // of AMQP
		if queue == "" || len(queue) > longest {
			faults = append(faults, fmt.Errorf("queue %q: use 1 to %d bytes", queue, longest))
		}
		if isOurs(t, queue) {
			faults = append(faults, fmt.Errorf("queue %q is the bridge's: name one of a consumer", queue))
		}
	}
	return errors.Join(faults...)
}

// isOurs reports whether a queue belongs to the topology, or a queue of that name would have
// the rights of one of its exchanges.
func isOurs(t *topology.Topology, name string) bool {
	return slices.ContainsFunc(t.Queues(), func(q topology.Queue) bool { return q.Name == name }) ||
		slices.ContainsFunc(t.Exchanges(), func(x topology.Exchange) bool { return x.Name == name })
}

func each(entries []string, name func(entry string) string) []string {
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = name(entry)
	}
	return names
}

// exactly returns a pattern that matches these names and no others. What those of the
// topology begin with is in it once.
func exactly(t *topology.Topology, names ...string) string {
	var all, ours []string
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		if rest, is := strings.CutPrefix(name, t.Prefix()+"."); is {
			ours = append(ours, regexp.QuoteMeta(rest))
		} else {
			all = append(all, regexp.QuoteMeta(name))
		}
	}
	if len(ours) > 0 {
		all = append(all, regexp.QuoteMeta(t.Prefix()+".")+anyOf(ours))
	}
	return "^" + anyOf(all) + "$"
}

func anyOf(patterns []string) string {
	if len(patterns) == 1 {
		return patterns[0]
	}
	return "(" + strings.Join(patterns, "|") + ")"
}
