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
