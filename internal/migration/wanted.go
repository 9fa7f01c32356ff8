package migration

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/topology"
)

// Entries are the configured entries and those that the plan adds.
func (p *Plan) Entries(configured []topology.Entry) ([]topology.Entry, error) {
	entries := slices.Clone(configured)
	var faults []error
	for _, m := range p.Exchanges {
		i := slices.IndexFunc(entries, func(e topology.Entry) bool { return e.Name == m.Entry })
		switch {
		case i < 0:
			entries = append(entries, topology.Entry{Name: m.Entry, Kind: m.Type, Tracked: m.Tracked})
		case entries[i].Kind != m.Type:
			faults = append(faults, fmt.Errorf("%w: entry %q is configured with type %s, but exchange %q is %s: choose another name (--entry)",
				ErrInput, m.Entry, entries[i].Kind, m.Exchange, m.Type))
		case m.Tracked:
			entries[i].Tracked = true
		}
	}
	slices.SortFunc(entries, func(a, b topology.Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries, errors.Join(faults...)
}

func setting(entries []topology.Entry) string {
	parts := make([]string, len(entries))
	for i, e := range entries {
		parts[i] = e.Name + "=" + e.Kind
		if e.Tracked {
			parts[i] += "+tracked"
		}
	}
	return strings.Join(parts, ",")
}

// Wanted are the bindings as AMQP takes them.
func (p *Plan) Wanted() []topology.Binding {
	bindings := make([]topology.Binding, len(p.Bindings))
	for i, b := range p.Bindings {
		bindings[i] = topology.Binding{
			Source: b.Source, Destination: b.Destination, ToExchange: b.DestinationKind == kindExchange,
			Key: b.Key, Args: arguments(b.Arguments),
		}
	}
	return bindings
}

// Applied notes what has been created, as [topology.Topology.Apply] says it.
func (p *Plan) Applied(changes []topology.Change) {
	created := map[string]bool{}
	for _, c := range changes {
		created[c.Name] = created[c.Name] || c.Kind == kindExchange
	}
	for i := range p.Exchanges {
		m := &p.Exchanges[i]
		m.State = StateExists
		if created[m.EntryExchange] || created[m.ReadyExchange] {
			m.State = StateCreated
		}
	}
	for i := range p.Bindings {
		b := &p.Bindings[i]
		switch {
		case b.State == StateExists:
		case p.live || created[b.Source]:
			b.State = StateCreated
		default:
			b.State = StateBound
		}
	}
	p.Next = p.steps()
}

// Without leaves out the bindings to what is missing, and reports them.
func (p *Plan) Without(missing *topology.MissingError) {
	old := map[string]string{}
	for _, m := range p.Exchanges {
		old[m.ReadyExchange] = m.Exchange
	}
	p.Bindings = slices.DeleteFunc(p.Bindings, func(b Bound) bool {
		gone := missing.Queues
		if b.DestinationKind == kindExchange {
			gone = missing.Exchanges
		}
		if !slices.Contains(gone, b.Destination) {
			return false
		}
		p.Findings = append(p.Findings, Finding{
			Exchange: old[b.Source], Kind: kindBinding, Name: b.Source + " -> " + b.Destination,
			Why: fmt.Sprintf("the %s does not exist, so the binding was not made", b.DestinationKind),
			Do:  "create it and run this again before publishers switch; what only it takes would wait in the queue unrouted",
		})
		return true
	})
}

// NotMigrated names the exchanges that no entry can take the place of.
func (p *Plan) NotMigrated() []string {
	var names []string
	for _, f := range p.Findings {
		if f.Left {
			names = append(names, f.Exchange)
		}
	}
	return names
}

// arguments makes AMQP values of JSON's. JSON does not tell the width of a
// number, which the broker does not look at when it compares headers.
func arguments(t Table) amqp.Table {
	if len(t) == 0 {
		return nil
	}
	args := amqp.Table{}
	for name, value := range t {
		args[name] = argument(value)
	}
	return args
}

func argument(value any) any {
	switch v := value.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := strconv.ParseFloat(string(v), 64) // JSON has checked it; what is too large is infinite
		return f
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = argument(item)
		}
		return list
	case map[string]any:
		return arguments(v)
	}
	return value
}
