package migration

import (
	"slices"
	"strings"

	"github.com/delaybridge/delaybridge/internal/printable"
)

// steps says what the user does next, in order.
func (p *Plan) steps() []string {
	if len(p.Exchanges) == 0 {
		return []string{}
	}
	var steps []string
	if p.asksForMore() && !p.live {
		steps = append(steps, "on a new broker, import the definitions without the plugin's exchanges, which --write-rest FILE writes; over one of these RabbitMQ refuses the import half-way")
	}
	if p.asksForMore() {
		steps = append(steps, "create all this: the same command with --apply")
	}
	steps = append(steps,
		"give the process that applies the topology, bridges and Go producers the setting entries: "+p.Setting+" (or DELAYBRIDGE_ENTRIES); bridges take the messages without a restart, and put back what somebody deletes after one",
		"let each service that declares the old exchange, or binds its queue to it, bind its queue to the ready exchange as well, and declare none of the new ones",
	)
	if len(p.Findings) > 0 {
		steps = append(steps, "see to what is not carried over as it is, where it says what to do")
	}
	steps = append(steps,
		"let publishers send to the entry exchange instead, one after the other; x-delay stays as it is",
	)
	if p.live {
		steps = append(steps,
			"wait until nobody publishes to the old exchange and nothing is delayed inside: migrate status, which exits with 0 then (--watch waits for it; --node names the other nodes of a cluster, since each counts its own)",
			"remove the old exchange, and what declares it: "+p.deletion(),
			"once no exchange of type "+PluginType+" is left, disable the plugin; only then upgrade to RabbitMQ 4.3",
		)
	} else {
		steps = append(steps,
			"on the broker that has the plugin, wait until nobody publishes to the old exchange and nothing is delayed inside: migrate status --watch, with its amqp-url and management-url; until then its consumers have to stay there, or a shovel to take along what still comes",
		)
	}
	return steps
}

// asksForMore reports whether something is still to be created.
func (p *Plan) asksForMore() bool {
	return slices.ContainsFunc(p.Exchanges, func(m Move) bool { return m.State == StateCreate }) ||
		slices.ContainsFunc(p.Bindings, func(b Bound) bool { return b.State == StateCreate })
}

func (p *Plan) deletion() string {
	commands := make([]string, len(p.Exchanges))
	for i, m := range p.Exchanges {
		commands[i] = "curl -u USER -X DELETE " + printable.Shell(p.api+"/"+escape(m.Exchange))
	}
	return strings.Join(commands, " && ")
}
