package topology

import (
	"context"
	"fmt"
	"maps"
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

// waits reports whether a tier or a lane has that name, of this or of another
// configuration with the same prefix.
func (t *Topology) waits(name string) bool {
	return strings.HasPrefix(name, t.name("tier", "")) || strings.HasPrefix(name, t.name("lane", ""))
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
