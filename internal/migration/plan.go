package migration

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/topology"
)

const (
	kindExchange = "exchange"
	kindQueue    = "queue"
)

// States of what a plan asks for.
const (
	StateCreate  = "create"  // it is not there, or the source of the plan cannot tell
	StateExists  = "exists"  // it is there
	StateCreated = "created" // Apply has just created it
	StateBound   = "bound"   // Apply has made sure of the binding; AMQP does not tell whether it was there
)

// Options say what to plan.
type Options struct {
	// Exchanges are those to migrate. Defaults to all of the plugin's.
	Exchanges []string
	// Names are the entries to take the place of exchanges, by exchange.
	// Others get the exchange's own name, or one made from it.
	Names map[string]string
	// Topology names the exchanges. Its entries stay, and one with the name
	// and type that an exchange needs is taken for its entry.
	Topology *topology.Topology
	// Management is the address of the management API, for commands.
	Management string
}

// Plan is what takes the place of the plugin's exchanges, and what does not.
type Plan struct {
	VHost     string    `json:"vhost"`
	Exchanges []Move    `json:"exchanges"`
	Bindings  []Bound   `json:"bindings"`
	Findings  []Finding `json:"findings"`
	Unseen    []string  `json:"not_looked_at"`
	Setting   string    `json:"entries"` // the setting for all bridges and producers
	Next      []string  `json:"next"`    // what the user does, in order
	live      bool
	api       string // of exchanges in the virtual host
}

// Move is an exchange of the plugin, and the entry that takes its place.
type Move struct {
	Exchange      string `json:"exchange"`
	Type          string `json:"type"`
	Entry         string `json:"entry"`
	EntryExchange string `json:"entry_exchange"` // where its publishers are to send
	ReadyExchange string `json:"ready_exchange"` // where its consumers are to bind
	Delayed       *int64 `json:"messages_delayed"`
	// Tracked means that the entry has to be a tracked one, since queues dead-letter
	// into the exchange.
	Tracked bool   `json:"tracked"`
	State   string `json:"state"`
}

// Bound is a binding of a ready exchange.
type Bound struct {
	Source          string `json:"source"`
	Destination     string `json:"destination"`
	DestinationKind string `json:"destination_type"`
	Key             string `json:"key"`
	Arguments       Table  `json:"arguments"`
	State           string `json:"state"`
}

// Finding is something that does not carry over, or not by itself.
type Finding struct {
	Exchange string `json:"exchange"` // of the plugin; "" if it concerns several
	// Left is set where the exchange has no place to go, so that its
	// publishers cannot switch.
	Left     bool     `json:"not_migrated"`
	Kind     string   `json:"kind"`
	Name     string   `json:"name"`
	Why      string   `json:"why"`
	Do       string   `json:"do"`
	Commands []string `json:"commands,omitempty"`
}

// Plan says what takes the place of the plugin's exchanges. Errors wrap
// [ErrInput], and name every fault of o.
func (d Definitions) Plan(o Options) (*Plan, error) {
	all := slices.DeleteFunc(slices.Clone(d.Exchanges), func(x Exchange) bool { return x.Type != PluginType })
	slices.SortStableFunc(all, func(a, b Exchange) int { return strings.Compare(a.Name, b.Name) })
	all = slices.CompactFunc(all, func(a, b Exchange) bool { return a.Name == b.Name }) // a broker has none twice
	faults := checkChosen(all, o.Names)
	for _, name := range o.Exchanges {
		if !slices.ContainsFunc(all, func(x Exchange) bool { return x.Name == name }) {
			faults = append(faults, d.notOfThePlugin(name, all))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	p := &planner{
		Definitions: d, topology: o.Topology, management: o.Management, chosen: o.Names,
		plan:  &Plan{VHost: d.VHost, Exchanges: []Move{}, Bindings: []Bound{}, Findings: []Finding{}, Unseen: append([]string{}, d.Unseen...), live: d.Live},
		all:   map[string]Exchange{},
		moves: map[string]Move{},
	}
	var movable []Exchange
	for _, x := range all {
		p.all[x.Name] = x
		if carried(x.delayedType()) {
			movable = append(movable, x)
		}
	}
	names := entryNames(movable, o.Names, o.Topology.Entries())
	for _, x := range all {
		if len(o.Exchanges) == 0 || slices.Contains(o.Exchanges, x.Name) {
			p.exchange(x, names[x.Name])
		}
	}
	for _, m := range p.plan.Exchanges {
		p.bindings(m)
	}
	p.findings()
	entries, err := p.plan.Entries(o.Topology.Entries())
	if err != nil {
		return nil, err
	}
	p.plan.Setting = setting(entries)
	p.plan.api = p.api("exchanges")
	p.plan.Next = p.plan.steps()
	return p.plan, nil
}

// planner makes one plan.
type planner struct {
	Definitions
	topology   *topology.Topology
	management string
	chosen     map[string]string // entries, by exchange
	plan       *Plan
	all        map[string]Exchange // of the plugin
	moves      map[string]Move     // by exchange
}

// carried reports whether a ready exchange can have that type.
func carried(kind string) bool {
	switch kind {
	case amqp.ExchangeDirect, amqp.ExchangeTopic, amqp.ExchangeFanout, amqp.ExchangeHeaders:
		return true
	}
	return false
}

func (p *planner) exchange(x Exchange, entry string) {
	if !carried(x.delayedType()) {
		p.unknownType(x)
		return
	}
	m := Move{
		Exchange: x.Name, Type: x.delayedType(), Entry: entry, Delayed: x.Delayed, State: StateCreate,
		EntryExchange: p.topology.EntryExchangeOf(entry), ReadyExchange: p.topology.ReadyExchangeOf(entry),
		Tracked: p.takesDeadLetters(x.Name),
	}
	if p.Live && p.has(m.EntryExchange) && p.has(m.ReadyExchange) {
		m.State = StateExists
	}
	p.moves[x.Name] = m
	p.plan.Exchanges = append(p.plan.Exchanges, m)
}

func (p *planner) has(exchange string) bool {
	return slices.ContainsFunc(p.Exchanges, func(x Exchange) bool { return x.Name == exchange })
}

// bindings plans those of an exchange's ready exchange.
func (p *planner) bindings(m Move) {
	for _, b := range p.Bindings {
		if b.Source != m.Exchange || p.cannotBind(m, b) {
			continue
		}
		bound := Bound{
			Source: m.ReadyExchange, Destination: b.Destination, DestinationKind: b.DestinationType,
			Key: b.RoutingKey, Arguments: b.Arguments, State: StateCreate,
		}
		if to, ok := p.moves[b.Destination]; ok && b.DestinationType == kindExchange {
			// What has been delayed once is routed at once by the second
			// exchange, so it goes past its entry.
			bound.Destination = to.ReadyExchange
		}
		if p.Live && slices.ContainsFunc(p.Bindings, bound.is) {
			bound.State = StateExists
		}
		if !slices.ContainsFunc(p.plan.Bindings, func(other Bound) bool { return other.key() == bound.key() }) {
			p.plan.Bindings = append(p.plan.Bindings, bound)
		}
	}
}

func (b Bound) is(existing Binding) bool {
	return b.key() == Bound{
		Source: existing.Source, Destination: existing.Destination, DestinationKind: existing.DestinationType,
		Key: existing.RoutingKey, Arguments: existing.Arguments,
	}.key()
}

// key is what tells bindings apart.
func (b Bound) key() string {
	arguments, _ := json.Marshal(b.Arguments) //nolint:errchkjson // it has come from JSON
	if len(b.Arguments) == 0 {
		arguments = nil
	}
	return strings.Join([]string{b.Source, b.DestinationKind, b.Destination, b.Key, string(arguments)}, "\x00")
}

func noSuch(name string, plugins []Exchange) error {
	names := make([]string, len(plugins))
	for i, x := range plugins {
		names[i] = x.Name
	}
	if len(names) == 0 {
		return fmt.Errorf("%w: no exchange %q of type %s, nor any other", ErrInput, name, PluginType)
	}
	return fmt.Errorf("%w: no exchange %q of type %s; there is %s", ErrInput, name, PluginType, quoted(names))
}

// notOfThePlugin says why name is none of the plugin's exchanges.
func (d Definitions) notOfThePlugin(name string, plugins []Exchange) error {
	for _, x := range d.Exchanges {
		if x.Name == name {
			return fmt.Errorf("%w: exchange %q is of type %s, not %s", ErrInput, name, x.Type, PluginType)
		}
	}
	return noSuch(name, plugins)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
