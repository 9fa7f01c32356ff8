package migration

import (
	"fmt"
	"slices"
)

// mustBeTracked says why an entry is one that the plan tracks.
const mustBeTracked = "the entry is tracked (+tracked), without which its dead letters could wedge a tier for everybody"

// takesDeadLetters reports whether queues dead-letter into an exchange.
func (p *planner) takesDeadLetters(exchange string) bool {
	return slices.ContainsFunc(p.Queues, func(q Queue) bool { return q.Arguments[argDeadLetter] == exchange }) ||
		slices.ContainsFunc(p.Policies, func(policy Policy) bool { return policy.Definition["dead-letter-exchange"] == exchange })
}

// deadLetters reports queues and policies that dead-letter into the exchange.
func (p *planner) deadLetters(m Move) {
	for _, q := range p.Queues {
		if q.Arguments[argDeadLetter] == m.Exchange {
			p.find(Finding{
				Exchange: m.Exchange, Kind: kindQueue, Name: q.Name,
				Why: "it dead-letters into the exchange (argument " + argDeadLetter + "), and arguments of a queue cannot be changed",
				Do: fmt.Sprintf("declare another queue that dead-letters into %s, move its bindings and consumers there, and delete this one once it is empty; %s",
					m.EntryExchange, mustBeTracked),
			})
		}
	}
	for _, policy := range p.Policies {
		if policy.Definition["dead-letter-exchange"] == m.Exchange {
			p.find(Finding{
				Exchange: m.Exchange, Kind: kindPolicy, Name: policy.Name,
				Why: fmt.Sprintf("queues that match %s dead-letter into the exchange (dead-letter-exchange)", policy.Pattern),
				Do: fmt.Sprintf("set the policy's dead-letter-exchange to %s when you switch, not while queues with at-least-once dead-lettering have dead letters on their way; %s",
					m.EntryExchange, mustBeTracked),
			})
		}
	}
}

// alternates reports alternate exchanges that lead to the exchange.
func (p *planner) alternates(m Move) {
	for _, x := range p.Exchanges {
		if x.Arguments[argAlternate] == m.Exchange {
			p.find(Finding{
				Exchange: m.Exchange, Kind: kindExchange, Name: x.Name,
				Why: "the exchange is its " + argAlternate + " (argument), which cannot be changed",
				Do:  fmt.Sprintf("declare it anew with the alternate exchange %s; %s", m.EntryExchange, p.cameBy(x.Name, m)),
			})
		}
	}
	for _, policy := range p.Policies {
		if policy.Definition[argAlternate] == m.Exchange {
			p.find(Finding{
				Exchange: m.Exchange, Kind: kindPolicy, Name: policy.Name,
				Why: fmt.Sprintf("the exchange is the %s of exchanges that match %s", argAlternate, policy.Pattern),
				Do:  fmt.Sprintf("set the policy's %s to %s when you switch; %s", argAlternate, m.EntryExchange, p.cameBy("those exchanges", m)),
			})
		}
	}
	if alternate := p.all[m.Exchange].Arguments[argAlternate]; alternate != nil {
		p.ownAlternate(m, kindExchange, m.Exchange, fmt.Sprint(alternate))
	}
}

// shovels reports shovels from and to the exchange.
func (p *planner) shovels(m Move) {
	for _, s := range p.Shovels {
		if s.Value["dest-exchange"] == m.Exchange {
			p.find(Finding{
				Exchange: m.Exchange, Kind: kindShovel, Name: s.Name,
				Why: "it publishes to an exchange of this name (dest-exchange), here or on another broker",
				Do:  "if it is here, set dest-exchange to " + m.EntryExchange + " when you switch",
			})
		}
		if s.Value["src-exchange"] == m.Exchange {
			p.find(Finding{
				Exchange: m.Exchange, Kind: kindShovel, Name: s.Name,
				Why: "it takes messages from an exchange of this name (src-exchange), here or on another broker, through a queue of its own",
				Do:  "if it is here, add a shovel with src-exchange " + m.ReadyExchange + " before publishers switch",
			})
		}
	}
}
