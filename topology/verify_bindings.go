package topology

import "github.com/delaybridge/delaybridge/topology/internal/rabbitmq"

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
