package topology

import "maps"

// Definitions are the exchanges, queues and bindings in RabbitMQ's own words: as JSON they are what
// 'rabbitmqctl import_definitions' and /api/definitions of the management API import. No policy is among
// them, since none is needed.
type Definitions struct {
	Exchanges []ExchangeDefinition `json:"exchanges"`
	Queues    []QueueDefinition    `json:"queues"`
	Bindings  []BindingDefinition  `json:"bindings"`
}

// ExchangeDefinition is an exchange of [Definitions].
type ExchangeDefinition struct {
	Name       string         `json:"name"`
	VHost      string         `json:"vhost"`
	Type       string         `json:"type"`
	Durable    bool           `json:"durable"`
	AutoDelete bool           `json:"auto_delete"`
	Internal   bool           `json:"internal"`
	Arguments  map[string]any `json:"arguments"` // never nil
}

// QueueDefinition is a queue of [Definitions].
type QueueDefinition struct {
	Name       string         `json:"name"`
	VHost      string         `json:"vhost"`
	Durable    bool           `json:"durable"`
	AutoDelete bool           `json:"auto_delete"`
	Arguments  map[string]any `json:"arguments"` // never nil
}

// BindingDefinition is a binding of [Definitions].
type BindingDefinition struct {
	Source          string         `json:"source"`
	VHost           string         `json:"vhost"`
	Destination     string         `json:"destination"`
	DestinationType string         `json:"destination_type"` // queue or exchange
	RoutingKey      string         `json:"routing_key"`
	Arguments       map[string]any `json:"arguments"` // never nil
}

// Definitions returns what [Topology.Apply] creates in a virtual host, for those who let something else
// create it. Importing it adds what is missing; it neither changes nor removes anything, so the bindings
// that a tracked entry has left from before it was one stay, unlike with Apply.
func (t *Topology) Definitions(vhost string) Definitions {
	var d Definitions
	for _, x := range t.Exchanges() {
		d.Exchanges = append(d.Exchanges, ExchangeDefinition{
			Name: x.Name, VHost: vhost, Type: x.Kind, Durable: true, Arguments: argumentsOf(described(x.Args, x.About)),
		})
	}
	for _, q := range t.Queues() {
		d.Queues = append(d.Queues, QueueDefinition{
			Name: q.Name, VHost: vhost, Durable: true, Arguments: argumentsOf(described(q.Args, q.About)),
		})
	}
	for _, b := range append(t.Bindings(), t.outward...) {
		d.Bindings = append(d.Bindings, BindingDefinition{
			Source: b.Source, VHost: vhost, Destination: b.Destination, DestinationType: b.destination().kind,
			RoutingKey: b.Key, Arguments: argumentsOf(b.Args),
		})
	}
	return d
}

// argumentsOf returns a copy, which is {} in JSON where there is nothing in it.
func argumentsOf(args map[string]any) map[string]any {
	all := make(map[string]any, len(args))
	maps.Copy(all, args)
	return all
}
