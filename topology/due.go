package topology

import (
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/topology/internal/rabbitmq"
)

// The entries beside the default one share tiers and lanes, and a queue has one
// dead-letter exchange. So these lead into headers exchanges, which tell by what the
// message carries to which ready exchange it belongs:
//
//   - out of a lane, by the header that the bridge has set;
//   - out of a tier, by what the broker has noted when the message expired: the
//     exchange that it was published to. A header of the publisher's plays no
//     part there, such as one that is left of an earlier journey.
//
// The broker's note is x-last-death-exchange. RabbitMQ 3.10 has only
// x-first-death-exchange, which is the same unless the message was dead-lettered
// before; so that counts only where the former leads nowhere. What no entry
// claims goes to the default ready exchange.
const (
	headerDelay      = "x-delay"
	headerEntry      = "x-delaybridge-entry"
	headerLastDeath  = "x-last-death-exchange"
	headerFirstDeath = "x-first-death-exchange"
)

func (t *Topology) dueTiers() string { return t.name("due", "tiers") }
func (t *Topology) dueFirst() string { return t.name("due", "first") }
func (t *Topology) dueLanes() string { return t.name("due", "lanes") }

// dueExchanges lie between the entries' waiting queues and their ready exchanges.
func (t *Topology) dueExchanges() []Exchange {
	headers := func(name, alternate string) Exchange {
		return Exchange{Name: name, Kind: amqp.ExchangeHeaders, Args: amqp.Table{rabbitmq.ArgAlternate: alternate}, About: t.aboutDue()}
	}
	return []Exchange{
		headers(t.dueFirst(), t.ReadyExchange()),
		headers(t.dueTiers(), t.dueFirst()),
		headers(t.dueLanes(), t.ReadyExchange()),
	}
}

// dueNames names the due exchanges, each before those it leads to.
func (t *Topology) dueNames() []string {
	var names []string
	for _, x := range slices.Backward(t.dueExchanges()) {
		names = append(names, x.Name)
	}
	return names
}

func (t *Topology) dueBindings() []Binding {
	var bindings []Binding
	to := func(entry, source, header, value string) {
		bindings = append(bindings, Binding{
			Source: source, Destination: t.ReadyExchangeOf(entry), ToExchange: true, Args: matching(header, value),
		})
	}
	for _, e := range t.entries {
		to(e.Name, t.dueTiers(), headerLastDeath, t.EntryExchangeOf(e.Name))
		to(e.Name, t.dueFirst(), headerFirstDeath, t.EntryExchangeOf(e.Name))
		to(e.Name, t.dueLanes(), headerEntry, e.Name)
	}
	return bindings
}

// matching is the argument list of a binding for one value of one header. Plain
// "all" ignores headers that start with x- and would match every message.
func matching(header string, value any) amqp.Table {
	return amqp.Table{rabbitmq.ArgMatch: matchAllWithX, header: value}
}
