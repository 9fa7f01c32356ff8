package topology

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/topology/internal/rabbitmq"
)

// Drift is one difference between what is described and what a broker goes by.
type Drift struct {
	Kind string `json:"kind"` // exchange, queue or binding
	Name string `json:"name"` // of a binding: source -> destination
	// Field is the property that differs; or existence, consumers, of a queue that messages
	// are to leave when they are due, or statistics, without which policies do not show.
	Field    string `json:"field"`
	Expected string `json:"expected"`
	Found    string `json:"found"`
	Remedy   string `json:"remedy"`

	// Policy and OperatorPolicy name those that the effective value may come from,
	// where it is not that of the queue's own argument.
	Policy         string `json:"policy,omitempty"`
	OperatorPolicy string `json:"operator_policy,omitempty"`
	// Path is below /api in the management API what DELETE removes a surplus binding by.
	// It is empty where Apply removes it.
	Path string `json:"path,omitempty"`
}

// What Field, Expected and Found say where it is not a property that differs.
const (
	fieldExistence  = "existence"
	fieldConsumers  = "consumers"
	fieldStatistics = "statistics"
	present         = "present"
	absent          = "absent"
)

const (
	remedyApply   = "delaybridge topology apply"
	remedyReplace = "it cannot be changed: drain and delete it, then delaybridge topology apply; or choose another prefix"
	remedyPrune   = "left by another configuration: delaybridge topology prune"
	remedyEntry   = "left by another configuration: list the entry in entries; or delaybridge topology prune"
)

const (
	// statisticsTimeout is how long to wait for the statistics of a queue that
	// was declared just now: two rounds of the broker, of five seconds each.
	statisticsTimeout = 20 * time.Second
	statisticsPoll    = 500 * time.Millisecond
)

// Surplus reports whether d is something that is there and should not be.
func (d Drift) Surplus() bool { return d.Field == fieldExistence && d.Expected == absent }

// Missing reports whether d is something that should be there and is not.
func (d Drift) Missing() bool { return d.Field == fieldExistence && d.Found == absent }

func surplus(kind, name, found, remedy string) Drift {
	return Drift{Kind: kind, Name: name, Field: fieldExistence, Expected: absent, Found: found, Remedy: remedy}
}

// Verify compares the broker's effective state with the description: which
// exchanges, queues and bindings there are, their properties and arguments, and
// what policies and operator policies make of them. Without differences it
// returns none. It only reads.
//
// The broker refreshes what it shows of policies and consumers every few
// seconds, so a change of these less than ten seconds ago may not show. For
// queues that were declared just now Verify waits until they show.
func (t *Topology) Verify(ctx context.Context, m *Management) ([]Drift, error) {
	queues, err := t.queuesWithStatistics(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("topology: %w", err)
	}
	exchanges, err := rabbitmq.Exchanges(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("topology: %w", err)
	}
	bindings, err := rabbitmq.Bindings(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("topology: %w", err)
	}
	var drifts []Drift
	for _, x := range t.Exchanges() {
		found, ok := exchanges[x.Name]
		drifts = append(drifts, x.compare(found, ok)...)
	}
	for _, q := range t.Queues() {
		found, ok := queues[q.Name]
		drifts = append(drifts, q.compare(found, ok)...)
		if ok && found.Consumers > 0 && t.waits(q.Name) {
			drifts = append(drifts, Drift{
				Kind: kindQueue, Name: q.Name, Field: fieldConsumers, Expected: "0", Found: strconv.Itoa(found.Consumers),
				Remedy: "stop the consumer: it takes messages before they are due",
			})
		}
	}
	for _, name := range t.leftovers(queues) {
		drifts = append(drifts, surplus(kindQueue, name, present, remedyPrune))
	}
	wider := t.withLeftEntries(exchanges)
	for _, e := range wider.entries[len(t.entries):] {
		for _, name := range []string{t.ReadyExchangeOf(e.Name), t.EntryExchangeOf(e.Name)} {
			if _, ok := exchanges[name]; ok {
				drifts = append(drifts, surplus(kindExchange, name, present, remedyEntry))
			}
		}
	}
	if len(t.entries) == 0 {
		for _, x := range t.dueExchanges() {
			if _, ok := exchanges[x.Name]; ok {
				drifts = append(drifts, surplus(kindExchange, x.Name, present, remedyEntry))
			}
		}
	}
	return append(drifts, t.compareBindings(wider, queues, exchanges, bindings)...), nil
}

func (t *Topology) queuesWithStatistics(ctx context.Context, m *Management) (map[string]rabbitmq.Queue, error) {
	deadline := time.Now().Add(statisticsTimeout)
	for {
		queues, err := rabbitmq.Queues(ctx, m)
		if err != nil {
			return nil, err
		}
		complete := !slices.ContainsFunc(t.Queues(), func(q Queue) bool {
			found, ok := queues[q.Name]
			return ok && found.EffectivePolicy == nil
		})
		if complete || time.Now().After(deadline) {
			return queues, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(statisticsPoll):
		}
	}
}

func (x Exchange) compare(found rabbitmq.Exchange, ok bool) []Drift {
	c := comparison{kind: kindExchange, name: x.Name}
	if !ok {
		c.differ(fieldExistence, present, absent, remedyApply)
		return c.drifts
	}
	c.equal("type", x.Kind, found.Type)
	c.equal("durable", true, found.Durable)
	c.equal("auto_delete", false, found.AutoDelete)
	c.equal("internal", false, found.Internal)
	c.arguments(x.Args, found.Arguments)
	return c.drifts
}

func (q Queue) compare(found rabbitmq.Queue, ok bool) []Drift {
	c := comparison{kind: kindQueue, name: q.Name}
	if !ok {
		c.differ(fieldExistence, present, absent, remedyApply)
		return c.drifts
	}
	c.equal("type", q.Args[rabbitmq.ArgQueueType], found.Type)
	c.equal("durable", true, found.Durable)
	c.equal("auto_delete", false, found.AutoDelete)
	c.equal("exclusive", false, found.Exclusive)
	c.arguments(q.Args, found.Arguments)
	if found.EffectivePolicy == nil {
		c.differ(fieldStatistics, present, absent,
			"the management API knows neither policies nor messages of it: is its leader up, and is the collection of statistics on?")
		return c.drifts
	}
	return append(c.drifts, q.overrides(found)...)
}

// overrides are the differences that policies make.
func (q Queue) overrides(found rabbitmq.Queue) []Drift {
	c := comparison{kind: kindQueue, name: q.Name}
	for _, o := range rabbitmq.Overrides(q.Args, found.Arguments, found.EffectivePolicy) {
		c.differ(o.Name, o.Wanted, o.Effective, "change "+found.Policies()+" so that it leaves "+o.Name+" alone or does not match "+q.Name)
		last := &c.drifts[len(c.drifts)-1]
		last.Policy, last.OperatorPolicy = found.Policy, found.OperatorPolicy
	}
	return c.drifts
}

// comparison gathers the differences of one entity.
type comparison struct {
	kind, name string
	drifts     []Drift
}

func (c *comparison) differ(field, expected, found, remedy string) {
	c.drifts = append(c.drifts, Drift{Kind: c.kind, Name: c.name, Field: field, Expected: expected, Found: found, Remedy: remedy})
}

func (c *comparison) equal(field string, expected, found any) {
	if expected != found {
		c.differ(field, fmt.Sprint(expected), fmt.Sprint(found), remedyReplace)
	}
}

func (c *comparison) arguments(expected, found map[string]any) {
	names := maps.Clone(expected)
	if names == nil {
		names = map[string]any{}
	}
	maps.Copy(names, found)
	delete(names, argAbout) // has no effect, and what an earlier release has declared has none
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if e, f := rabbitmq.Text(expected[name]), rabbitmq.Text(found[name]); e != f {
			c.differ(name, e, f, remedyReplace)
		}
	}
}

// compareBindings finds described bindings that are missing, and others that
// take messages out of their way: a second match on the entry exchange keeps a
// message from the alternate exchange, so it would never reach the inbox.
// Bindings to a ready exchange, or to the retry exchange, are consumers': what those
// exchanges are there for. wider is t and the entries that another configuration has left.
func (t *Topology) compareBindings(wider *Topology, queues map[string]rabbitmq.Queue, exchanges map[string]rabbitmq.Exchange, bindings []rabbitmq.Binding) []Drift {
	found := map[bindingKey]bool{}
	for _, b := range bindings {
		found[keyOf(b)] = true
	}
	var drifts []Drift
	described, bypasses, ours := map[bindingKey]bool{}, map[bindingKey]bool{}, map[id]bool{}
	for _, b := range wider.Bindings() {
		described[b.key()] = true
	}
	for _, b := range t.bypasses() {
		bypasses[b.key()] = true
	}
	for _, b := range t.Bindings() {
		_, from := exchanges[b.Source]
		_, to := queues[b.Destination]
		if b.ToExchange {
			_, to = exchanges[b.Destination]
		}
		// Without its ends it is reported by them.
		if from && to && !found[b.key()] {
			drifts = append(drifts, Drift{
				Kind: kindBinding, Name: b.name(), Field: fieldExistence, Expected: b.details(), Found: absent, Remedy: remedyApply,
			})
		}
	}
	for _, x := range wider.Exchanges() {
		ours[id{kindExchange, x.Name}] = true
	}
	for _, e := range wider.allEntries() {
		ours[id{kindExchange, t.ReadyExchangeOf(e.Name)}] = false
	}
	ours[id{kindExchange, t.RetryExchange()}] = false
	for _, q := range t.Queues() {
		ours[id{kindQueue, q.Name}] = true
	}
	for _, b := range bindings {
		from, to := id{kindExchange, b.Source}, id{kindQueue, b.Destination}
		intoQueue := b.DestinationType == kindQueue && b.Source != "" && ours[to]
		if (ours[from] || intoQueue) && !described[keyOf(b)] {
			d := surplus(kindBinding, b.Name(), b.Details(), "remove the binding: it takes messages out of their way")
			d.Path = b.Path()
			if bypasses[keyOf(b)] {
				d.Remedy, d.Path = remedyApply, ""
			}
			drifts = append(drifts, d)
		}
	}
	return drifts
}

// bindingKey is what tells bindings apart.
type bindingKey struct {
	source, key, args string
	destination       id
}

func (b Binding) key() bindingKey {
	return bindingKey{b.Source, b.Key, rabbitmq.Exactly(b.Args), b.destination()}
}

func keyOf(b rabbitmq.Binding) bindingKey {
	return bindingKey{b.Source, b.RoutingKey, rabbitmq.Exactly(b.Arguments), id{b.DestinationType, b.Destination}}
}

// overrideColumns are what is asked of each queue.
const overrideColumns = "name,arguments,policy,operator_policy,effective_policy_definition"

// Overrides returns what policies and operator policies make of the queues' arguments, where
// that is another thing than the description says: by some of it messages come early, are
// dropped, or are refused. It is a part of [Topology.Verify], and asks for these queues
// alone, however many others there are. What it goes by is up to ten seconds old.
func (t *Topology) Overrides(ctx context.Context, m *Management) ([]Drift, error) {
	var queues []rabbitmq.Queue
	if err := m.Queues(ctx, `^`+regexp.QuoteMeta(t.prefix)+`\.`, overrideColumns, &queues); err != nil {
		return nil, fmt.Errorf("topology: look for policies: %w", err)
	}
	found := map[string]rabbitmq.Queue{}
	for _, q := range queues {
		found[q.Name] = q
	}
	var drifts []Drift
	for _, q := range t.Queues() {
		drifts = append(drifts, q.overrides(found[q.Name])...)
	}
	return drifts, nil
}

// Overridden sums up what [Topology.Overrides] has found, on one line.
func (t *Topology) Overridden(drifts []Drift) string {
	var by, fields, queues []string
	add := func(list *[]string, text string) {
		if text != "" && !slices.Contains(*list, text) {
			*list = append(*list, text)
		}
	}
	for _, d := range drifts {
		if d.Policy != "" {
			add(&by, fmt.Sprintf("policy %q", d.Policy))
		}
		if d.OperatorPolicy != "" {
			add(&by, fmt.Sprintf("operator policy %q", d.OperatorPolicy))
		}
		add(&fields, d.Field+" "+d.Found+" instead of "+d.Expected)
		add(&queues, d.Name)
	}
	const most = 3
	more := ""
	if len(fields) > most {
		fields, more = fields[:most], fmt.Sprintf(" and %d more", len(fields)-most)
	}
	return fmt.Sprintf("%s: %s%s, queues: %d", strings.Join(by, " or "), strings.Join(fields, ", "), more, len(queues))
}
