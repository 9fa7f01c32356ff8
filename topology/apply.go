package topology

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/topology/internal/rabbitmq"
)

// Apply creates what is missing and returns what it created, as
// [Topology.Plan] says it. It needs AMQP only. Applying again changes nothing,
// and several processes may apply at the same time.
//
// Where Plan finds a fault, Apply returns the same error and has created
// nothing. Bindings that were removed are made again, and those of an entry
// that has become a tracked one are removed; neither is among the changes.
func (t *Topology) Apply(ctx context.Context, channels Channels) ([]Change, error) {
	s := rabbitmq.NewSession(channels)
	defer s.Close()
	changes, err := t.plan(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("topology: nothing was changed: %w", err)
	}
	if err := t.declare(ctx, s); err != nil {
		return nil, fmt.Errorf("topology: some of it may be created by now, apply again: %w", err)
	}
	return changes, nil
}

// declare creates everything from the back to the front. An exchange is bound
// before the next one is declared: no message can enter while there is nowhere
// for it to go.
func (t *Topology) declare(ctx context.Context, s *rabbitmq.Session) error {
	for _, q := range t.Queues() {
		if err := s.Do(ctx, q.declare); err != nil {
			return fmt.Errorf("queue %s: %w", q.Name, err)
		}
	}
	outward := t.outward
	for _, x := range t.Exchanges() {
		if t.isEntry(x.Name) {
			if err := bind(ctx, s, outward); err != nil {
				return err
			}
			outward = nil
		}
		if err := s.Do(ctx, x.declare); err != nil {
			return fmt.Errorf("exchange %s: %w", x.Name, err)
		}
		if err := bind(ctx, s, t.bindingsOf(x)); err != nil {
			return err
		}
	}
	for _, b := range t.bypasses() {
		if err := s.Do(ctx, b.unbind); err != nil {
			return fmt.Errorf("binding %s: %w", b.name(), err)
		}
	}
	return nil
}

func bind(ctx context.Context, s *rabbitmq.Session, bindings []Binding) error {
	for _, b := range bindings {
		if err := s.Do(ctx, b.bind); err != nil {
			return fmt.Errorf("binding %s: %w", b.name(), err)
		}
	}
	return nil
}

func (q Queue) declare(ch *amqp.Channel) error {
	_, err := ch.QueueDeclare(q.Name, true, false, false, false, described(q.Args, q.About))
	return err
}

func (x Exchange) declare(ch *amqp.Channel) error {
	return ch.ExchangeDeclare(x.Name, x.Kind, true, false, false, false, described(x.Args, x.About))
}

func (b Binding) bind(ch *amqp.Channel) error {
	if b.ToExchange {
		return ch.ExchangeBind(b.Destination, b.Key, b.Source, false, b.Args)
	}
	return ch.QueueBind(b.Destination, b.Key, b.Source, false, b.Args)
}

// unbind removes the binding, if it is there.
func (b Binding) unbind(ch *amqp.Channel) error {
	if b.ToExchange {
		return ch.ExchangeUnbind(b.Destination, b.Key, b.Source, false, b.Args)
	}
	return ch.QueueUnbind(b.Destination, b.Key, b.Source, b.Args)
}

// Repair creates what is missing, from the back to the front as [Topology.Apply]
// does, and returns the queues and exchanges it created. Unlike Apply it creates
// what it can: a fault at one entity keeps none of the others from being put
// back. It needs AMQP only, and neither deletes nor changes any queue or exchange.
//
// All bindings are made again, and those of an entry that has become a tracked one are
// removed. AMQP does not tell which of them were missing, or there, so they are not
// among the changes.
//
// The error joins every fault found, as that of [Topology.Plan] does, and wraps
// [ErrIncomplete] where something is missing still. After the first permission
// that is lacking, only what is missing is looked for.
func (t *Topology) Repair(ctx context.Context, channels Channels) ([]Change, error) {
	s := rabbitmq.NewSession(channels)
	defer s.Close()
	r := repair{planner: t.planner(s)}
	if err := r.run(ctx, t); err != nil {
		return r.changes, fmt.Errorf("topology: %w", err)
	}
	if err := r.faults.join(); err != nil {
		return r.changes, fmt.Errorf("topology: %w", err)
	}
	return r.changes, nil
}

// repair creates what a planner would only plan.
type repair struct {
	planner
	denied  bool // asking for more would only make the broker close a channel each time
	missing bool // still
}

func (r *repair) run(ctx context.Context, t *Topology) error {
	for _, q := range t.Queues() {
		if err := r.entity(ctx, q.entity()); err != nil {
			return err
		}
	}
	for _, x := range t.Exchanges() {
		if err := r.entity(ctx, x.entity()); err != nil {
			return err
		}
		for _, b := range t.bindingsOf(x) {
			if err := r.bind(ctx, b, b.bind); err != nil {
				return err
			}
		}
	}
	for _, b := range t.bypasses() {
		if err := r.bind(ctx, b, b.unbind); err != nil {
			return err
		}
	}
	if r.missing {
		r.faults.others = append(r.faults.others, ErrIncomplete)
	}
	return nil
}

// entity creates e where it is missing, and compares it where it is not.
func (r *repair) entity(ctx context.Context, e entity) error {
	err := r.session.Do(ctx, e.find)
	missing := rabbitmq.Answered(err, amqp.NotFound)
	switch {
	case err != nil && !missing:
		return r.note(e.id, "configure", e.wanted, err)
	case !missing && r.denied:
		return nil
	}
	err = r.session.Do(ctx, e.declare)
	switch {
	case err == nil && missing:
		r.create(e.id, e.details)
	case err != nil && missing:
		r.missing = true
	}
	r.denied = r.denied || rabbitmq.Answered(err, amqp.AccessRefused)
	return r.note(e.id, "configure", e.wanted, err)
}

// bind makes a binding, or removes it.
func (r *repair) bind(ctx context.Context, b Binding, operation func(*amqp.Channel) error) error {
	if r.denied && !r.created[id{kindExchange, b.Source}] && !r.created[b.destination()] {
		return nil
	}
	err := r.session.Do(ctx, operation)
	if rabbitmq.Answered(err, amqp.NotFound) { // an end could not be created, or has just been deleted again
		r.missing = true
		return nil
	}
	r.denied = r.denied || rabbitmq.Answered(err, amqp.AccessRefused)
	return r.note(id{kindBinding, b.name()}, "write or read", func(string) string { return rabbitmq.None }, err)
}
