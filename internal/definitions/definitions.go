// Package definitions writes a topology down in RabbitMQ's own words, for those who let something else create
// it.
package definitions

import (
	"maps"

	"github.com/delaybridge/delaybridge/topology"
)

// Definitions are exchanges, queues and bindings: as JSON they are what
// 'rabbitmqctl import_definitions' and /api/definitions of the management API import. No policy is among
// them, since none is needed.
type Definitions struct {
	Exchanges []Exchange `json:"exchanges"`
	Queues    []Queue    `json:"queues"`
	Bindings  []Binding  `json:"bindings"`
}

// Exchange is an exchange of [Definitions].
type Exchange struct {
	Name       string         `json:"name"`
	VHost      string         `json:"vhost"`
	Type       string         `json:"type"`
	Durable    bool           `json:"durable"`
	AutoDelete bool           `json:"auto_delete"`
	Internal   bool           `json:"internal"`
	Arguments  map[string]any `json:"arguments"` // never nil
}

// Queue is a queue of [Definitions].
type Queue struct {
	Name       string         `json:"name"`
	VHost      string         `json:"vhost"`
	Durable    bool           `json:"durable"`
	AutoDelete bool           `json:"auto_delete"`
	Arguments  map[string]any `json:"arguments"` // never nil
}

// Binding is a binding of [Definitions].
type Binding struct {
	Source          string         `json:"source"`
	VHost           string         `json:"vhost"`
	Destination     string         `json:"destination"`
	DestinationType string         `json:"destination_type"` // queue or exchange
	RoutingKey      string         `json:"routing_key"`
	Arguments       map[string]any `json:"arguments"` // never nil
}

// Of returns what [topology.Topology.Apply] creates of t in a virtual host. Importing it adds what is missing; it
// neither changes nor removes anything, so the bindings that a tracked entry has left from before it was
// one stay, unlike with Apply.
func Of(t *topology.Topology, vhost string) Definitions {
	var d Definitions
	for _, x := range t.Exchanges() {
		d.Exchanges = append(d.Exchanges, Exchange{
			Name: x.Name, VHost: vhost, Type: x.Kind, Durable: true, Arguments: arguments(x.Args, x.About),
		})
	}
	for _, q := range t.Queues() {
		d.Queues = append(d.Queues, Queue{
			Name: q.Name, VHost: vhost, Durable: true, Arguments: arguments(q.Args, q.About),
		})
	}
	for _, b := range t.Bindings() {
		to := "queue"
		if b.ToExchange {
			to = "exchange"
		}
		d.Bindings = append(d.Bindings, Binding{
			Source: b.Source, VHost: vhost, Destination: b.Destination, DestinationType: to,
			RoutingKey: b.Key, Arguments: arguments(b.Args, ""),
		})
	}
	return d
}

// arguments returns those to declare with, which are {} in JSON where there are none.
func arguments(args map[string]any, about string) map[string]any {
	all := make(map[string]any, len(args)+1)
	maps.Copy(all, args)
	if about != "" {
		all["about"] = about // as Apply declares it
	}
	return all
}
