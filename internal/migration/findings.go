package migration

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/delaybridge/delaybridge/internal/printable"
)

// Kinds of findings, beside exchange and queue.
const (
	kindBinding         = "binding"
	kindPolicy          = "policy"
	kindPermission      = "permission"
	kindTopicPermission = "topic permission"
	kindShovel          = "shovel"
)

const (
	argAlternate  = "alternate-exchange"
	argDeadLetter = "x-dead-letter-exchange"
)

func (p *planner) find(f Finding) { p.plan.Findings = append(p.plan.Findings, f) }

// findings looks for what does not carry over by itself.
func (p *planner) findings() {
	for _, m := range p.plan.Exchanges {
		p.properties(m)
		p.incoming(m)
		p.deadLetters(m)
		p.alternates(m)
		p.policies(m)
		p.shovels(m)
		p.topicPermissions(m)
	}
	p.permissions()
}

// unknownType reports an exchange whose routing no ready exchange can do.
func (p *planner) unknownType(x Exchange) {
	kind := x.delayedType()
	f := Finding{Exchange: x.Name, Left: true, Kind: kindExchange, Name: x.Name}
	if kind == "" {
		f.Why = "it has no x-delayed-type, without which the plugin does not route"
		f.Do = "find out how its messages are to be routed, and configure an entry for it (entries)"
	} else {
		f.Why = fmt.Sprintf("its x-delayed-type is %s; a ready exchange can be direct, topic, fanout or headers", kind)
		f.Do = fmt.Sprintf("configure an entry of type fanout for it, and bind that entry's ready exchange to an exchange of type %s, where the plugin for that type is at hand; bind the queues to that one", kind)
	}
	p.find(f)
}

// properties reports what our exchanges, which are durable and stay, do not have.
func (p *planner) properties(m Move) {
	x := p.all[m.Exchange]
	if _, chosen := p.chosen[x.Name]; m.Entry != x.Name && !chosen {
		p.find(Finding{
			Exchange: x.Name, Kind: kindExchange, Name: x.Name,
			Why: fmt.Sprintf("its entry is called %s: its own name is none that an entry can have, or an entry of another type or for another exchange has it", m.Entry),
			Do:  "nothing, unless you want another name: --entry " + printable.Shell(x.Name+"=NAME") + ", in each run",
		})
	}
	differs := func(property, effect string) {
		p.find(Finding{
			Exchange: x.Name, Kind: kindExchange, Name: x.Name, Why: "it is " + property + "; " + effect,
			Do: "nothing, unless a client relies on it",
		})
	}
	if !x.Durable {
		differs("not durable", "the entry is, and outlasts a restart of the broker")
	}
	if x.AutoDelete {
		differs("auto-delete", "the entry stays when its last binding is gone")
	}
	if x.Internal {
		differs("internal", "clients can publish to the entry, where their permissions let them")
	}
}

// cannotBind reports a binding that the ready exchange must not, or cannot, have.
func (p *planner) cannotBind(m Move, b Binding) bool {
	f := Finding{Exchange: m.Exchange, Kind: kindBinding, Name: m.Exchange + " -> " + b.Destination + details(b)}
	if other, ok := p.all[b.Destination]; ok && b.DestinationType == kindExchange {
		if _, moves := p.moves[b.Destination]; moves {
			return false
		}
		f.Why = fmt.Sprintf("exchange %s is the plugin's too and has no entry in this plan; it would delay the messages a second time, since their x-delay stays as it was sent", other.Name)
		f.Do = fmt.Sprintf("bind its queues to %s by hand", m.ReadyExchange)
		if carried(other.delayedType()) {
			f.Do = fmt.Sprintf("migrate %s as well, or ", other.Name) + f.Do
		}
		p.find(f)
		return true
	}
	for _, q := range p.Queues {
		switch {
		case b.DestinationType != kindQueue || q.Name != b.Destination:
		case q.Exclusive:
			f.Why = "the queue is exclusive: only its own connection can bind it, and it goes with that"
			f.Do = "let the service bind its queue to " + m.ReadyExchange + " as well, before publishers switch"
			p.find(f)
			return true
		case !q.Durable || q.AutoDelete:
			f.Why = "the queue is transient or auto-delete: the new binding goes with it, and the service makes only the old one again"
			f.Do = "let the service bind its queue to " + m.ReadyExchange + " as well, before publishers switch"
			p.find(f)
			return false
		}
	}
	return false
}

func (p *planner) ownAlternate(m Move, kind, name, alternate string) {
	p.find(Finding{
		Exchange: m.Exchange, Kind: kind, Name: name,
		Why: fmt.Sprintf("messages that no binding of the exchange takes go to its %s %s; those of %s wait in %s", argAlternate, alternate, m.ReadyExchange, p.topology.Unrouted()),
		Do:  "consume from that queue, or bind a queue for those routing keys to " + m.ReadyExchange,
	})
}

// policies reports what the policy in force does to the exchange: of those
// that match, the one of the highest priority.
func (p *planner) policies(m Move) {
	var inForce *Policy
	for i, policy := range p.Policies {
		applies := policy.ApplyTo == "exchanges" || policy.ApplyTo == "all" || policy.ApplyTo == ""
		matches, err := match(policy.Pattern, m.Exchange)
		switch {
		case !applies:
		case err != nil:
			p.find(Finding{
				Exchange: m.Exchange, Kind: kindPolicy, Name: policy.Name,
				Why: fmt.Sprintf("whether its pattern %s matches the exchange cannot be told here (%v)", policy.Pattern, err),
				Do:  "if it does, see what it sets for the exchange",
			})
		case matches && (inForce == nil || policy.Priority > inForce.Priority):
			inForce = &p.Policies[i]
		}
	}
	if inForce == nil {
		return
	}
	var federation []string
	for _, key := range sortedKeys(inForce.Definition) {
		switch {
		case key == argAlternate && p.all[m.Exchange].Arguments[argAlternate] == nil: // an argument has precedence
			p.ownAlternate(m, kindPolicy, inForce.Name, fmt.Sprint(inForce.Definition[key]))
		case strings.HasPrefix(key, "federation-upstream"):
			federation = append(federation, key)
		}
	}
	if federation != nil {
		p.find(Finding{
			Exchange: m.Exchange, Kind: kindPolicy, Name: inForce.Name,
			Why: fmt.Sprintf("it federates the exchange (%s), by names that match %s; upstream, the exchange of the entry's name is another one", strings.Join(federation, ", "), inForce.Pattern),
			Do:  fmt.Sprintf("set \"exchange\" of the upstream to %s, and let a policy with it match %s", m.Exchange, m.EntryExchange),
		})
	}
}

func (p *planner) topicPermissions(m Move) {
	for _, t := range p.TopicPermissions {
		if t.Exchange == m.Exchange {
			p.find(Finding{
				Exchange: m.Exchange, Kind: kindTopicPermission, Name: t.User,
				Why: "it names the exchange; RabbitMQ looks at topic permissions only where an exchange is of type topic, so it has had no effect",
				Do:  fmt.Sprintf("if it is wanted for the routing keys that %s may bind, set it for %s", t.User, m.ReadyExchange),
			})
		}
	}
}

// propertiesKey is how the management API addresses the binding; "" if that
// takes a hash of the arguments that only the broker makes.
func (b Binding) propertiesKey() string {
	switch {
	case b.PropertiesKey != "":
		return b.PropertiesKey
	case len(b.Arguments) > 0:
		return ""
	case b.RoutingKey == "":
		return "~"
	}
	return quote(b.RoutingKey)
}

// details tells bindings between the same two ends apart.
func details(b Binding) string {
	var parts []string
	if b.RoutingKey != "" {
		parts = append(parts, "routing key "+b.RoutingKey)
	}
	for _, name := range sortedKeys(b.Arguments) {
		parts = append(parts, fmt.Sprintf("%s=%v", name, b.Arguments[name]))
	}
	if parts == nil {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// match says whether the broker, whose patterns are Perl's, would find pattern
// in name. An empty one matches nothing but an empty name.
func match(pattern, name string) (bool, error) {
	if pattern == "" {
		return name == "", nil
	}
	r, err := regexp.Compile(pattern)
	if err != nil {
		return false, err
	}
	return r.MatchString(name), nil
}

// remaining lists the names that pattern does not match.
func remaining(pattern string, names []string) (missing []string, err error) {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		ok, e := match(pattern, name)
		if e != nil {
			err = e
		}
		return ok
	}), err
}
