package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/topology"
)

// boundQueue is a queue that due messages lead to.
type boundQueue struct {
	queue
	unbinding []string // the commands that take it off the exchanges it is bound to
}

// bound looks for queues of consumers that can hold up a tier for everybody: those that
// refuse messages when they are full, and those that dead-letter into an entry that is
// not tracked. It also looks for bindings that send what is due round again.
func (x *examination) bound(ctx context.Context) ([]Finding, error) {
	queues, err := x.queues(ctx)
	if err != nil {
		return nil, err
	}
	bindings, err := x.bindings(ctx)
	if err != nil {
		return nil, err
	}
	bound := x.boundQueues(queues, bindings)
	findings := x.loops(bindings)
	for _, b := range bound {
		limits := b.limits()
		if !b.refuses() || len(limits) == 0 {
			continue
		}
		f := find(queueRefuses, "queue "+b.Name, fmt.Sprintf("due messages lead to it, and it refuses them beyond %s (overflow %s, messages: %s)",
			text(limits), b.property("overflow"), count(b.Messages)))
		if limit, full := b.full(); full {
			f.Severity, f.Found = Problem, fmt.Sprintf("it is full (%s, messages: %s, consumers: %d) and refuses messages", limit, count(b.Messages), b.Consumers)
			f.Means = "the tiers and lanes keep its due messages; as many as the dead-letter prefetch hold up everybody's there"
		}
		if b.Policy != "" || b.Consumers == 0 {
			f.Commands = []string{x.lift(b.queue)}
		}
		findings = append(findings, f)
	}
	unbinding := map[string][]string{}
	for _, b := range bound {
		unbinding[b.Name] = b.unbinding
	}
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		q := queues[name]
		into, cycle := x.cycle(q)
		if !cycle {
			continue
		}
		by := "by its argument"
		if q.Arguments["x-dead-letter-exchange"] == nil {
			by = "by policy " + q.Policy
		}
		findings = append(findings, find(deadLetterCycle, "queue "+name, fmt.Sprintf("it dead-letters into %s, which is no tracked entry, %s (messages: %s)", into, by, count(q.Messages)),
			unbinding[name]...))
	}
	return findings, nil
}

func (x *examination) bindings(ctx context.Context) ([]binding, error) {
	var bindings []binding
	err := x.Management.Get(ctx, "bindings/{vhost}", &bindings)
	return bindings, err
}

// reached are the exchanges that due messages and retries come to. Exchanges may be bound to exchanges.
func (x *examination) reached(bindings []binding) map[string]bool {
	reached := map[string]bool{x.Topology.RetryExchange(): true, x.Topology.Unrouted(): true}
	for _, name := range x.readyExchanges() {
		reached[name] = true
	}
	for again := true; again; {
		again = false
		for _, b := range bindings {
			if reached[b.Source] && b.DestinationType == "exchange" && !reached[b.Destination] {
				reached[b.Destination], again = true, true
			}
		}
	}
	return reached
}

// loops names the bindings by which what is due comes to an entry exchange again. Behind an entry exchange
// everything is reached, so only what leads there from elsewhere counts.
func (x *examination) loops(bindings []binding) []Finding {
	reached := x.reached(bindings)
	entry := map[string]bool{}
	for _, e := range append(x.Topology.Entries(), topology.Entry{}) {
		entry[x.Topology.EntryExchangeOf(e.Name)] = true
	}
	var findings []Finding
	for _, b := range bindings {
		if reached[b.Source] && !entry[b.Source] && entry[b.Destination] && b.DestinationType == "exchange" {
			findings = append(findings, find(readyLoop, "exchange "+b.Source, fmt.Sprintf("due messages come to it, and it leads to %s, by routing key %q", b.Destination, printable.Text(b.RoutingKey)),
				x.remove(strings.Join([]string{"bindings/{vhost}/e", pathSegment(b.Source), "e", pathSegment(b.Destination), pathSegment(b.PropertiesKey)}, "/"))))
		}
	}
	return findings
}

// boundQueues are those that a ready exchange or the retry exchange leads to, sorted.
func (x *examination) boundQueues(queues map[string]queue, bindings []binding) []boundQueue {
	reached := x.reached(bindings)
	unbinding := map[string][]string{}
	for _, b := range bindings {
		if _, there := queues[b.Destination]; there && reached[b.Source] && b.DestinationType == "queue" {
			unbinding[b.Destination] = append(unbinding[b.Destination], x.remove(strings.Join([]string{
				"bindings/{vhost}/e", pathSegment(b.Source), "q", pathSegment(b.Destination), pathSegment(b.PropertiesKey),
			}, "/")))
		}
	}
	var bound []boundQueue
	for _, name := range slices.Sorted(maps.Keys(unbinding)) {
		bound = append(bound, boundQueue{queues[name], unbinding[name]})
	}
	return bound
}

func (x *examination) readyExchanges() []string {
	names := []string{x.Topology.ReadyExchange()}
	for _, e := range x.Topology.Entries() {
		names = append(names, x.Topology.ReadyExchangeOf(e.Name))
	}
	return names
}

// cycle returns the exchange that a queue dead-letters into, if that leads into a tier:
// an entry exchange that is not a tracked one's, or a tier's own.
func (x *examination) cycle(q queue) (into string, cycle bool) {
	into, _ = q.property("dead-letter-exchange").(string)
	entries := append(x.Topology.Entries(), topology.Entry{})
	cycle = slices.ContainsFunc(entries, func(e topology.Entry) bool {
		return into == x.Topology.EntryExchangeOf(e.Name) && !x.Topology.IsTracked(e.Name)
	}) || slices.ContainsFunc(x.Topology.TierQueues(), func(tier topology.Tier) bool { return into == tier.Name })
	return into, cycle
}

// property is what the broker goes by: of a dead-letter exchange the queue's own argument,
// where it has one, and of others the policy.
func (q queue) property(name string) any {
	argument, policy := q.Arguments["x-"+name], q.EffectivePolicy[name]
	if policy == nil || (name == "dead-letter-exchange" && argument != nil) {
		return argument
	}
	return policy
}

// refuses reports whether the queue is to refuse what is beyond a limit.
func (q queue) refuses() bool {
	overflow, _ := q.property("overflow").(string)
	return strings.HasPrefix(overflow, "reject-publish")
}

// limit is one of a queue's length.
type limit struct {
	name string
	most int64
}

func (l limit) String() string { return fmt.Sprintf("%s %d", l.name, l.most) }

// limits are those of a queue, by argument and by policy.
func (q queue) limits() []limit {
	var limits []limit
	for _, name := range []string{"max-length", "max-length-bytes"} {
		for _, v := range []any{q.Arguments["x-"+name], q.EffectivePolicy[name]} {
			if most, ok := v.(json.Number); ok {
				if n, err := most.Int64(); err == nil {
					limits = append(limits, limit{name, n})
				}
			}
		}
	}
	return limits
}

// full reports whether the queue is at its limit, and refuses what is beyond.
func (q queue) full() (at string, full bool) {
	if !q.refuses() {
		return "", false
	}
	for _, l := range q.limits() {
		held := q.Messages
		if l.name == "max-length-bytes" {
			held = q.Bytes
		}
		if held != nil && int64(*held) >= l.most {
			return l.String(), true
		}
	}
	return "", false
}

// lift is the command that lifts a limit that a policy sets, or shows who ought to drain
// the queue.
func (x *examination) lift(q queue) string {
	if q.Policy != "" && q.Arguments["x-max-length"] == nil && q.Arguments["x-max-length-bytes"] == nil {
		return "rabbitmqctl clear_policy " + x.on() + " " + printable.Shell(q.Policy)
	}
	return "rabbitmqctl list_consumers " + x.on()
}

func text(limits []limit) string {
	words := make([]string, len(limits))
	for i, l := range limits {
		words[i] = l.String()
	}
	return strings.Join(words, ", ")
}

// count writes how many messages there are, of which a new queue's statistics say nothing.
func count(messages *int) string {
	if messages == nil {
		return "not known yet"
	}
	return strconv.Itoa(*messages)
}
