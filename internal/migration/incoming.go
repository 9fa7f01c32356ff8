package migration

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/printable"
)

// The broker notes by which exchange a message was published, and by that the
// bridge knows its entry. What another exchange leads to an entry exchange was
// published to neither, so it comes out of the default ready exchange.

// incoming reports bindings from other exchanges.
func (p *planner) incoming(m Move) {
	for _, b := range p.Bindings {
		if b.DestinationType != kindExchange || b.Destination != m.Exchange {
			continue
		}
		if _, moves := p.moves[b.Source]; moves { // it is carried from ready to ready
			continue
		}
		key := p.passedOn(b)
		f := Finding{
			Exchange: m.Exchange, Kind: kindBinding, Name: b.Source + " -> " + m.Exchange + details(b),
			Why: "bound to the entry as well, the exchange would deliver each message twice; and what comes that way leaves by " +
				p.topology.ReadyExchange() + ", since it was published to another exchange",
			Do: fmt.Sprintf("best let publishers send to %s themselves. Or pass on from %s what has the routing key %s (of every publisher to the default entry), bind the exchange to the entry, and then unbind it from the old one; in this order nothing is lost, and what is published between the last two comes twice",
				m.EntryExchange, p.topology.ReadyExchange(), key),
			Commands: []string{
				p.post(p.topology.ReadyExchange(), m.ReadyExchange, key, nil),
				p.post(b.Source, m.EntryExchange, b.RoutingKey, b.Arguments),
			},
		}
		isWildcard := func(word string) bool { return word == "*" || word == "#" }
		if p.kindOf(b.Source) == amqp.ExchangeDirect && slices.ContainsFunc(strings.Split(key, "."), isWildcard) {
			f.Do += fmt.Sprintf(". The key has wildcards: by it %s passes on the messages of other keys, too", p.topology.ReadyExchange())
		}
		if properties := b.propertiesKey(); properties != "" {
			f.Commands = append(f.Commands, "curl -u USER -X DELETE "+printable.Shell(p.api("bindings", "e", b.Source, "e", m.Exchange, properties)))
		} else {
			f.Do += " (a file does not say how the API addresses a binding with arguments: remove it in the management UI)"
		}
		p.find(f)
	}
}

// passedOn is a routing key for a topic exchange that takes what b does.
func (p *planner) passedOn(b Binding) string {
	switch p.kindOf(b.Source) {
	case amqp.ExchangeDirect, amqp.ExchangeTopic:
		return b.RoutingKey
	}
	return "#"
}

// kindOf returns the type by which an exchange routes; "" where it is not known.
func (p *planner) kindOf(exchange string) string {
	for _, x := range p.Exchanges {
		switch {
		case x.Name != exchange:
		case x.Type == PluginType:
			return x.delayedType()
		default:
			return x.Type
		}
	}
	return ""
}

// post is a command that binds one exchange to another.
func (p *planner) post(source, destination, key string, arguments Table) string {
	if arguments == nil {
		arguments = Table{} // {}, not null
	}
	body, _ := json.Marshal(map[string]any{"routing_key": key, "arguments": arguments}) //nolint:errchkjson // it has come from JSON
	return "curl -u USER -H 'content-type: application/json' -X POST " +
		printable.Shell(p.api("bindings", "e", source, "e", destination)) + " -d " + printable.Shell(printable.Text(string(body))) // the same to JSON
}

// cameBy says what to do about messages that reach the entry by way of others.
func (p *planner) cameBy(others string, m Move) string {
	return fmt.Sprintf("what comes that way was published to %s and leaves by %s: bind that to %s for its routing keys",
		others, p.topology.ReadyExchange(), m.ReadyExchange)
}
