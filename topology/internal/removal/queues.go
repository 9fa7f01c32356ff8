package removal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/topology/internal/rabbitmq"
)

// pruneQueue closes a tier or lane, and deletes it when it is empty.
func (p *pruning) pruneQueue(ctx context.Context, name string) error {
	x, there := p.exchanges[name]
	if there && x.Stats.In.Rate > 0 && !p.Force {
		p.wait(rabbitmq.KindExchange, name, fmt.Sprintf("it gets %.3g messages a second: a publisher has another configuration", x.Stats.In.Rate))
		return nil
	}
	for _, b := range p.bindings {
		if leadsTo(name, b) && !p.isOurs(b.Source) && !p.Force {
			p.keep(rabbitmq.KindQueue, name, "exchange "+b.Source+" leads to it")
			return nil
		}
	}
	reopened, err := p.closeQueue(ctx, name)
	if err != nil {
		return err
	}
	if _, known := p.closed[name]; reopened || !known {
		p.closed[name] = time.Now()
	}
	why, err := p.holds(ctx, name, p.closed[name])
	if err != nil {
		return err
	}
	if why != "" {
		p.wait(rabbitmq.KindQueue, name, why)
		if !p.DryRun {
			return nil
		}
	}
	return p.deleteQueue(ctx, name)
}

// closeQueue removes what leads into a queue: the bindings of entry exchanges first, so that what
// they would take goes to the inbox, and then the exchange of the same name. It reports whether
// there was any.
func (p *pruning) closeQueue(ctx context.Context, name string) (open bool, err error) {
	for _, b := range p.bindings {
		if !leadsTo(name, b) || !p.isEntry(b.Source) {
			continue
		}
		open = true
		if err := p.unbind(ctx, b); err != nil {
			return open, err
		}
	}
	if x, there := p.exchanges[name]; there && x.Type == amqp.ExchangeFanout {
		open = true
		err = p.deleteExchange(ctx, x)
	}
	return open, err
}

// leadsTo reports whether a binding leads to a queue, other than that which each queue has by its name.
func leadsTo(queue string, b rabbitmq.Binding) bool {
	return b.DestinationType == rabbitmq.KindQueue && b.Destination == queue && b.Source != ""
}

// isOurs reports whether an exchange is an entry exchange, or that of a tier or lane.
func (p *pruning) isOurs(exchange string) bool {
	return p.IsWaiting(exchange) || p.isEntry(exchange)
}

func (p *pruning) isEntry(exchange string) bool {
	has := func(entry string) bool { return p.EntryExchangeOf(entry) == exchange }
	return has("") || slices.ContainsFunc(p.Configured, has) || slices.ContainsFunc(p.leftEntries, has)
}

// holds says what a queue to which nothing leads since an instant has still, or nothing.
func (p *pruning) holds(ctx context.Context, name string, since time.Time) (why string, err error) {
	ready, err := p.session.Count(ctx, name)
	switch {
	case errors.Is(err, rabbitmq.ErrSilent):
		p.session = rabbitmq.NewSession(p.channels)
		return "it does not answer", nil
	case err != nil && !rabbitmq.Answered(err, amqp.NotFound):
		return "", fmt.Errorf("queue %s: %w", name, err)
	}
	all := p.queues[name].Messages
	switch {
	case all == nil: // as of a queue that is new
		p.settling = true
		return "the management API does not know what it holds: is its leader up, and is the collection of statistics on?", nil
	case ready > 0 || *all > 0:
		return fmt.Sprintf("it has %d messages", max(ready, *all)), nil
	case time.Since(since) < p.SettleTime && !p.DryRun:
		p.settling = true
		return fmt.Sprintf("it is watched for %v", p.SettleTime), nil
	}
	return "", nil
}

func (p *pruning) wait(kind, name, reason string) {
	p.left = append(p.left, Change{ActionWait, kind, name, reason})
}

func (p *pruning) keep(kind, name, reason string) {
	p.left = append(p.left, Change{ActionKeep, kind, name, reason})
}

func (p *pruning) deleted(kind, name, details string) {
	p.changes = append(p.changes, Change{ActionDelete, kind, name, details})
}

// do changes something on the broker, except in a dry run.
func (p *pruning) do(ctx context.Context, change func(*amqp.Channel) error) error {
	if p.DryRun {
		return nil
	}
	return p.session.Do(ctx, change)
}

func (p *pruning) unbind(ctx context.Context, b rabbitmq.Binding) error {
	args := amqp.Table{}
	for name, value := range b.Arguments {
		if n, is := rabbitmq.Number(value); is {
			value = n
		}
		args[name] = value
	}
	err := p.do(ctx, func(ch *amqp.Channel) error { return ch.QueueUnbind(b.Destination, b.RoutingKey, b.Source, args) })
	if err != nil {
		return fmt.Errorf("binding %s: %w", b.Name(), err)
	}
	p.deleted(rabbitmq.KindBinding, b.Name(), b.Details())
	return nil
}

func (p *pruning) deleteExchange(ctx context.Context, x rabbitmq.Exchange) error {
	err := p.do(ctx, func(ch *amqp.Channel) error { return ch.ExchangeDelete(x.Name, false, false) })
	if err != nil {
		return fmt.Errorf("exchange %s: %w", x.Name, err)
	}
	p.deleted(rabbitmq.KindExchange, x.Name, x.Type)
	return nil
}

// deleteQueue deletes an empty queue to which nothing leads. A process with another
// configuration may have opened it again since it was looked at.
func (p *pruning) deleteQueue(ctx context.Context, name string) error {
	lost := 0
	err := p.do(ctx, func(ch *amqp.Channel) (err error) {
		lost, err = ch.QueueDelete(name, false, false, false)
		return err
	})
	if err != nil {
		return fmt.Errorf("queue %s: %w", name, err)
	}
	delete(p.queues, name)
	if lost > 0 {
		p.deleted(rabbitmq.KindQueue, name, fmt.Sprintf("with %d messages", lost))
		return fmt.Errorf("queue %s was deleted with messages that have come to it meanwhile (%d): a process with another configuration publishes there", name, lost)
	}
	details := "empty"
	if p.DryRun {
		details = "once it is empty"
	}
	p.deleted(rabbitmq.KindQueue, name, details)
	return nil
}
