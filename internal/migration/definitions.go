package migration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrInput means that there is nothing to plan from: the file is no export of
// definitions, or has no such virtual host or exchange.
var ErrInput = errors.New("nothing to migrate from")

// PluginType is the type of the plugin's exchanges.
const PluginType = "x-delayed-message"

// Definitions is what one virtual host has, as far as a plan needs it.
type Definitions struct {
	VHost            string // "" in a file of one virtual host, which need not say
	Exchanges        []Exchange
	Queues           []Queue
	Bindings         []Binding
	Policies         []Policy
	Permissions      []Permission
	TopicPermissions []TopicPermission
	Shovels          []Shovel

	// Unseen says what the source does not show, so that nothing was found
	// there; for each a sentence without its end.
	Unseen []string
	// Live is set where a broker was asked, whose state a plan can tell.
	Live bool
}

// Exchange is an exchange as RabbitMQ shows it.
type Exchange struct {
	Name       string `json:"name"`
	VHost      string `json:"vhost"`
	Type       string `json:"type"`
	Durable    bool   `json:"durable"`
	AutoDelete bool   `json:"auto_delete"`
	Internal   bool   `json:"internal"`
	Arguments  Table  `json:"arguments"`
	// Delayed is how many messages the plugin holds on the node that was asked;
	// files do not say.
	Delayed *int64 `json:"messages_delayed"`
}

// delayedType is the exchange type by which the plugin routes; "" if the
// argument is missing or no string.
func (x Exchange) delayedType() string {
	kind, _ := x.Arguments["x-delayed-type"].(string)
	return kind
}

// Queue is a queue as RabbitMQ shows it. Files have durable ones only.
type Queue struct {
	Name       string `json:"name"`
	VHost      string `json:"vhost"`
	Durable    bool   `json:"durable"`
	AutoDelete bool   `json:"auto_delete"`
	Exclusive  bool   `json:"exclusive"`
	Arguments  Table  `json:"arguments"`
}

// Binding is a binding as RabbitMQ shows it.
type Binding struct {
	VHost           string `json:"vhost"`
	Source          string `json:"source"`
	Destination     string `json:"destination"`
	DestinationType string `json:"destination_type"` // queue or exchange
	RoutingKey      string `json:"routing_key"`
	Arguments       Table  `json:"arguments"`
	PropertiesKey   string `json:"properties_key"` // how the API addresses it; "" in files
}

// Policy is a policy as RabbitMQ shows it. Operator policies can set nothing
// that concerns an exchange.
type Policy struct {
	Name       string `json:"name"`
	VHost      string `json:"vhost"`
	Pattern    string `json:"pattern"`
	ApplyTo    string `json:"apply-to"`
	Priority   int    `json:"priority"`
	Definition Table  `json:"definition"`
}

// Permission is what a user may do in a virtual host.
type Permission struct {
	User      string `json:"user"`
	VHost     string `json:"vhost"`
	Configure string `json:"configure"`
	Write     string `json:"write"`
	Read      string `json:"read"`
}

// TopicPermission is with which routing keys a user may use a topic exchange.
type TopicPermission struct {
	User     string `json:"user"`
	VHost    string `json:"vhost"`
	Exchange string `json:"exchange"`
	Write    string `json:"write"`
	Read     string `json:"read"`
}

// Shovel is a dynamic shovel, a runtime parameter.
type Shovel struct {
	Name      string `json:"name"`
	VHost     string `json:"vhost"`
	Component string `json:"component"`
	Value     Table  `json:"value"`
}

const componentShovel = "shovel"

// Table holds arguments. RabbitMQ writes an empty one as [] at times.
type Table map[string]any

// UnmarshalJSON keeps numbers as they are written.
func (t *Table) UnmarshalJSON(data []byte) error {
	if bytes.Equal(bytes.TrimSpace(data), []byte("[]")) {
		*t = nil
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var table map[string]any
	err := decoder.Decode(&table)
	*t = table
	return err
}

// export is a file of definitions: of a whole broker, in which everything names
// its virtual host, or of one virtual host, in which nothing does.
type export struct {
	OriginalVHost    string          `json:"original_vhost_name"` // in files of one virtual host, since 4.0
	Users            json.RawMessage `json:"users"`               // only in files of a whole broker
	VHosts           []struct{ Name string }
	Exchanges        *[]Exchange       `json:"exchanges"`
	Queues           []Queue           `json:"queues"`
	Bindings         []Binding         `json:"bindings"`
	Policies         []Policy          `json:"policies"`
	Permissions      []Permission      `json:"permissions"`
	TopicPermissions []TopicPermission `json:"topic_permissions"`
	Parameters       []Shovel          `json:"parameters"`
}

// Parse reads a file of definitions and returns those of vhost. With vhost ""
// it takes the one virtual host that has exchanges of the plugin, or else the
// only one there is. A file of one virtual host does not say which, so vhost is
// not compared there unless it does. Errors wrap [ErrInput].
func Parse(file []byte, vhost string) (Definitions, error) {
	e, err := decode(file)
	if err != nil {
		return Definitions{}, err
	}
	if vhosts := e.vhosts(); len(vhosts) > 0 {
		if vhost, err = e.choose(vhosts, vhost); err != nil {
			return Definitions{}, err
		}
		return e.of(vhost), nil
	}
	if vhost != "" && e.OriginalVHost != "" && vhost != e.OriginalVHost {
		return Definitions{}, fmt.Errorf("%w: virtual host %q: the file is that of virtual host %q", ErrInput, vhost, e.OriginalVHost)
	}
	d := e.of("")
	if d.VHost = e.OriginalVHost; vhost != "" {
		d.VHost = vhost
	}
	d.Unseen = append(d.Unseen, "permissions: a file of one virtual host has none; export the definitions of the whole broker, or ask the broker itself")
	return d, nil
}

func decode(file []byte) (export, error) {
	var e export
	if bytes.HasPrefix(file, []byte{0x1f, 0x8b}) {
		return e, fmt.Errorf("%w: the file is compressed: unpack it first (gunzip)", ErrInput)
	}
	if err := json.Unmarshal(file, &e); err != nil {
		return e, fmt.Errorf("%w: the file is not JSON as RabbitMQ exports it (%w): use rabbitmqctl export_definitions FILE --format json, or the management UI's Export definitions", ErrInput, err)
	}
	if e.Exchanges == nil {
		return e, fmt.Errorf("%w: the file is JSON, but has no \"exchanges\", so it is no export of definitions: use rabbitmqctl export_definitions FILE, or the management UI's Export definitions", ErrInput)
	}
	return e, nil
}

// vhosts lists the virtual hosts that the file names, sorted.
func (e export) vhosts() []string {
	var names []string
	for _, v := range e.VHosts {
		names = append(names, v.Name)
	}
	for _, x := range *e.Exchanges {
		names = append(names, x.VHost)
	}
	for _, q := range e.Queues {
		names = append(names, q.VHost)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
}

func (e export) choose(vhosts []string, vhost string) (string, error) {
	if vhost != "" {
		if !slices.Contains(vhosts, vhost) {
			return "", fmt.Errorf("%w: the file has no virtual host %q; it has %s", ErrInput, vhost, quoted(vhosts))
		}
		return vhost, nil
	}
	var having []string
	for _, x := range *e.Exchanges {
		if x.Type == PluginType && !slices.Contains(having, x.VHost) {
			having = append(having, x.VHost)
		}
	}
	slices.Sort(having)
	switch {
	case len(having) == 1:
		return having[0], nil
	case len(having) > 1:
		return "", fmt.Errorf("%w: several virtual hosts of the file have exchanges of type %s: name one with --vhost: %s", ErrInput, PluginType, quoted(having))
	case len(vhosts) == 1:
		return vhosts[0], nil
	}
	return "", fmt.Errorf("%w: no virtual host of the file has an exchange of type %s; it has %s", ErrInput, PluginType, quoted(vhosts))
}

// of is what the file has of a virtual host, or all of it for "".
func (e export) of(vhost string) Definitions {
	return Definitions{
		VHost:            vhost,
		Exchanges:        within(vhost, *e.Exchanges, func(x Exchange) string { return x.VHost }),
		Queues:           within(vhost, e.Queues, func(q Queue) string { return q.VHost }),
		Bindings:         within(vhost, e.Bindings, func(b Binding) string { return b.VHost }),
		Policies:         within(vhost, e.Policies, func(p Policy) string { return p.VHost }),
		Permissions:      within(vhost, e.Permissions, func(p Permission) string { return p.VHost }),
		TopicPermissions: within(vhost, e.TopicPermissions, func(p TopicPermission) string { return p.VHost }),
		Shovels: slices.DeleteFunc(within(vhost, e.Parameters, func(s Shovel) string { return s.VHost }),
			func(s Shovel) bool { return s.Component != componentShovel }),
	}
}

func within[T any](vhost string, all []T, of func(T) string) []T {
	return slices.DeleteFunc(slices.Clone(all), func(item T) bool { return vhost != "" && of(item) != vhost })
}

func quoted(names []string) string {
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = fmt.Sprintf("%q", name)
	}
	return strings.Join(parts, ", ")
}
