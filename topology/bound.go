package topology

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/topology/internal/rabbitmq"
)

// WithBindings returns a description that also has bindings, from exchanges of t
// to queues and exchanges of others. Apply makes them before it creates an entry
// exchange, so that nothing can enter that does not find them.
//
// Plan and Apply report with a [*MissingError] which of their ends are not there,
// and with a [*PermissionError] where the user may not bind them. RabbitMQ 4.3
// lets only those look who may configure a queue or exchange; without, Apply stops
// at the first that is missing, before it creates an entry exchange. Verify, Repair
// and Delete take no notice of them: they are others' affair.
func (t *Topology) WithBindings(bindings ...Binding) *Topology {
	wider := *t
	wider.outward = slices.Clone(bindings)
	return &wider
}

// MissingError says which queues and exchanges of others, to be bound, do not exist.
type MissingError struct {
	Queues    []string
	Exchanges []string
}

func (e *MissingError) Error() string {
	var parts []string
	if len(e.Queues) > 0 {
		parts = append(parts, "queues to bind that do not exist: "+strings.Join(e.Queues, ", "))
	}
	if len(e.Exchanges) > 0 {
		parts = append(parts, "exchanges to bind that do not exist: "+strings.Join(e.Exchanges, ", "))
	}
	return strings.Join(parts, "; ") + ": create them first"
}

// planOutward looks at the ends of the bindings to others.
func (p *planner) planOutward(ctx context.Context, t *Topology) error {
	var missing MissingError
	var denied *PermissionError
	seen := map[id]bool{}
	for _, b := range t.outward {
		to := b.destination()
		if seen[to] || t.describes(to) {
			continue
		}
		seen[to] = true
		err := p.session.Do(ctx, b.findDestination)
		switch {
		case rabbitmq.Answered(err, amqp.NotFound) && b.ToExchange:
			missing.Exchanges = append(missing.Exchanges, to.name)
			continue
		case rabbitmq.Answered(err, amqp.NotFound):
			missing.Queues = append(missing.Queues, to.name)
			continue
		case rabbitmq.Answered(err, amqp.ResourceLocked):
			p.faults.others = append(p.faults.others, fmt.Errorf("queue %s is exclusive: only its own connection can bind it", to.name))
			continue
		case err != nil && !rabbitmq.Answered(err, amqp.AccessRefused): // RabbitMQ 4.3 lets only those look who may configure it
			return fmt.Errorf("%s %s: %w", to.kind, to.name, err)
		}
		err = p.session.Do(ctx, b.tryUnbind)
		switch {
		case rabbitmq.Answered(err, amqp.AccessRefused):
			if denied == nil {
				denied = &PermissionError{Permission: "write", Pattern: p.faults.pattern, cause: err}
			}
			denied.Names = append(denied.Names, to.name)
			denied.Pattern += "|^" + regexp.QuoteMeta(to.name) + "$"
		case err != nil && !rabbitmq.Answered(err, amqp.NotFound): // there may be no such exchange yet
			return fmt.Errorf("%s %s: %w", to.kind, to.name, err)
		}
	}
	if missing.Queues != nil || missing.Exchanges != nil {
		p.faults.others = append(p.faults.others, &missing)
	}
	if denied != nil {
		p.faults.denied = append(p.faults.denied, denied)
	}
	return nil
}

func (t *Topology) describes(i id) bool {
	if i.kind == kindQueue {
		return slices.ContainsFunc(t.Queues(), func(q Queue) bool { return q.Name == i.name })
	}
	return slices.ContainsFunc(t.Exchanges(), func(x Exchange) bool { return x.Name == i.name })
}

// isEntry reports whether an entry exchange has that name.
func (t *Topology) isEntry(exchange string) bool {
	return slices.ContainsFunc(t.allEntries(), func(e Entry) bool { return t.EntryExchangeOf(e.Name) == exchange })
}

func (b Binding) findDestination(ch *amqp.Channel) error {
	if b.ToExchange {
		return ch.ExchangeDeclarePassive(b.Destination, amqp.ExchangeDirect, true, false, false, false, nil)
	}
	_, err := ch.QueueDeclarePassive(b.Destination, true, false, false, false, nil)
	return err
}

// tryUnbind removes a binding that cannot exist, which takes the same permission
// for the destination as making one.
func (b Binding) tryUnbind(ch *amqp.Channel) error {
	if b.ToExchange {
		return ch.ExchangeUnbind(b.Destination, noSuchBinding, b.Source, false, nil)
	}
	return ch.QueueUnbind(b.Destination, noSuchBinding, b.Source, nil)
}

const noSuchBinding = "no such binding"
