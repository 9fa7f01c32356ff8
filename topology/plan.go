package topology

import (
	"context"
	"fmt"
	"regexp"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/topology/internal/rabbitmq"
)

// Channels opens channels. An [amqp.Connection] does.
type Channels interface {
	Channel() (*amqp.Channel, error)
}

// What a [Change] does, beside the actions of package removal, and to what.
const (
	actionCreate = "create"

	kindExchange = rabbitmq.KindExchange
	kindQueue    = rabbitmq.KindQueue
	kindBinding  = rabbitmq.KindBinding
)

// Change is one step from what a broker has to what is described, or back.
type Change struct {
	Action  string `json:"action"` // create or delete; see also Topology.Prune
	Kind    string `json:"kind"`   // exchange, queue or binding
	Name    string `json:"name"`   // of a binding: source -> destination
	Details string `json:"details"`
}

// Plan returns what [Topology.Apply] would create, and changes nothing. It
// needs AMQP only.
//
// The error joins every fault found: a [*MismatchError] for each entity that
// exists with other properties, and a [*PermissionError] for each permission
// that the user lacks to apply.
//
// AMQP cannot show bindings, so those between entities that exist already are
// taken for granted; Apply makes them anyway, and removes those that a tracked entry
// has left from before it was one. [Topology.Verify] sees both.
func (t *Topology) Plan(ctx context.Context, channels Channels) ([]Change, error) {
	s := rabbitmq.NewSession(channels)
	defer s.Close()
	changes, err := t.plan(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("topology: %w", err)
	}
	return changes, nil
}

func (t *Topology) plan(ctx context.Context, s *rabbitmq.Session) ([]Change, error) {
	p := t.planner(s)
	for _, q := range t.Queues() {
		if err := p.entity(ctx, q.entity()); err != nil {
			return nil, err
		}
	}
	for _, x := range t.Exchanges() {
		if err := p.exchange(ctx, x); err != nil {
			return nil, err
		}
	}
	if err := p.planOutward(ctx, t); err != nil {
		return nil, err
	}
	for _, b := range append(t.Bindings(), t.outward...) {
		if p.created[id{kindExchange, b.Source}] || p.created[b.destination()] {
			p.create(id{kindBinding, b.name()}, b.details())
		}
	}
	return p.changes, p.faults.join()
}

// planner asks the broker about one entity after the other.
type planner struct {
	session *rabbitmq.Session
	faults  faults
	created map[id]bool
	changes []Change
}

func (t *Topology) planner(s *rabbitmq.Session) planner {
	return planner{
		session: s,
		faults:  faults{pattern: "^" + regexp.QuoteMeta(t.prefix) + `\.`},
		created: map[id]bool{},
	}
}

// id tells entities apart: a queue and an exchange may have the same name.
type id struct{ kind, name string }

func (p *planner) create(i id, details string) {
	p.created[i] = true
	p.changes = append(p.changes, Change{actionCreate, i.kind, i.name, details})
}

func (p *planner) exchange(ctx context.Context, x Exchange) error {
	err := p.entity(ctx, x.entity())
	if err != nil {
		return err
	}
	// To remove a binding that cannot exist takes write permission for the
	// destination and read permission for the source, as making one does.
	// Every queue has the name of an exchange, so this covers the queues too.
	err = p.session.Do(ctx, func(ch *amqp.Channel) error {
		return ch.ExchangeUnbind(x.Name, noSuchBinding, x.Name, false, nil)
	})
	return p.note(id{kindExchange, x.Name}, "write or read", x.property, err)
}

// entity is what exchanges and queues have in common.
type entity struct {
	id
	details string
	wanted  func(argument string) string
	find    func(*amqp.Channel) error // 404 where it does not exist
	declare func(*amqp.Channel) error
	probe   func(*amqp.Channel) error // a declaration with an argument that no broker accepts
}

func (q Queue) entity() entity {
	return entity{
		id: id{kindQueue, q.Name}, details: rabbitmq.Details(q.Args), wanted: q.property,
		find: func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclarePassive(q.Name, true, false, false, false, nil)
			return err
		},
		declare: q.declare,
		probe: func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare(q.Name, true, false, false, false,
				amqp.Table{rabbitmq.ArgQueueType: "quorum", rabbitmq.ArgMessageTTL: "not a number"})
			return err
		},
	}
}

func (x Exchange) entity() entity {
	return entity{
		id: id{kindExchange, x.Name}, details: x.details(), wanted: x.property,
		find: func(ch *amqp.Channel) error {
			return ch.ExchangeDeclarePassive(x.Name, x.Kind, true, false, false, false, nil)
		},
		declare: x.declare,
		probe: func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare(x.Name, x.Kind, true, false, false, false, amqp.Table{rabbitmq.ArgAlternate: int64(0)})
		},
	}
}

// entity plans to create what does not exist, and compares what does.
func (p *planner) entity(ctx context.Context, e entity) error {
	err := p.session.Do(ctx, e.find)
	switch {
	case rabbitmq.Answered(err, amqp.NotFound):
		return p.missing(ctx, e)
	case err != nil:
		return p.note(e.id, "configure", e.wanted, err)
	}
	// Declaring what exists changes nothing, and fails where it is not the same.
	return p.note(e.id, "configure", e.wanted, p.session.Do(ctx, e.declare))
}

// missing plans to create e, if the user may. The broker looks at the
// permission before it looks at the arguments, so a declaration that it must
// reject tells without creating anything.
func (p *planner) missing(ctx context.Context, e entity) error {
	err := p.session.Do(ctx, e.probe)
	if rabbitmq.AnsweredUnacceptable(err) {
		p.create(e.id, e.details)
		return nil
	}
	return p.note(e.id, "configure", e.wanted, err)
}

// note keeps a fault of one entity, and returns any other error.
func (p *planner) note(i id, permission string, wanted func(string) string, err error) error {
	if err == nil || p.faults.add(i, permission, wanted, err) {
		return nil
	}
	return fmt.Errorf("%s %s: %w", i.kind, i.name, err)
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
