package world

import (
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/fault/history"
	"github.com/delaybridge/delaybridge/internal/fault/roles"
	"github.com/delaybridge/delaybridge/internal/fault/shop"
	"github.com/delaybridge/delaybridge/internal/sleep"
)

// lease is that of the bridges.
const lease = 2 * time.Second

// The processes of a world, by their names, or how many of a kind there are.
const (
	Customers     = "customers"
	Bridges       = 2
	Consumers     = 2
	Relays        = 2
	slowConsumer  = "consumer-slow"
	plainConsumer = "consumer-plain"
	MailConsumer  = "consumer-mails"
	stranger      = "stranger"
	strangersOwn  = "consumer-strangers"
)

// The shop in Python: a process that places orders, and one that closes them. Its orders are in
// PostgreSQL. A run without PostgreSQL has no such shop.
const (
	PythonCustomers = "python-customers"
	PythonConsumer  = "python-consumer"
	pythonShare     = 0.05 // of the rate of all others
)

// BridgeName names one of the [Bridges], from 0 on.
func BridgeName(n int) string { return fmt.Sprintf("bridge-%d", n+1) }

// ConsumerName names one of the [Consumers], from 0 on.
func ConsumerName(n int) string { return fmt.Sprintf("consumer-%d", n+1) }

// RelayName names one of the [Relays], from 0 on.
func RelayName(n int) string { return fmt.Sprintf("relay-%d", n+1) }

// Populate starts the processes, each with links of its own; customers come for duration.
func (w *World) Populate(rate float64, duration time.Duration) error {
	for n := range Consumers {
		if err := w.employ(roles.Role{Kind: roles.Consumer, Name: ConsumerName(n), Seed: w.Seed, Queue: shop.Queue, Bind: []string{shop.ClosingKey, shop.MailKey}}, n); err != nil {
			return err
		}
	}
	if err := w.employ(roles.Role{Kind: roles.Consumer, Name: slowConsumer, Seed: w.Seed, Queue: shop.SlowQueue, Bind: []string{shop.SlowKey}}, 2); err != nil {
		return err
	}
	if err := w.employ(roles.Role{Kind: roles.Consumer, Name: plainConsumer, Seed: w.Seed, Queue: shop.PlainQueue, Bind: []string{shop.PlainKey}}, 1); err != nil {
		return err
	}
	if err := w.employ(roles.Role{Kind: roles.Consumer, Name: MailConsumer, Seed: w.Seed, Queue: shop.MailQueue, Bind: []string{shop.MailKey}}, 0); err != nil {
		return err
	}
	for n := range Bridges {
		if err := w.employ(roles.Role{Kind: roles.Bridge, Name: BridgeName(n), Bridge: roles.BridgeSettings{Lease: lease, RepairEvery: shop.RepairEvery}}, n+1); err != nil {
			return err
		}
	}
	for n := range Relays {
		if err := w.employ(roles.Role{Kind: roles.Relay, Name: RelayName(n)}, n+1); err != nil {
			return err
		}
	}
	if err := w.employ(roles.Role{Kind: roles.Consumer, Name: strangersOwn, Seed: w.Seed, Queue: shop.StrangersQueue, Bind: []string{"#"}}, 2); err != nil {
		return err
	}
	if w.HasPython() {
		if err := w.employPython(roles.Role{Kind: roles.PythonConsumer, Name: PythonConsumer}, 1); err != nil {
			return err
		}
	}
	sleep.For(w.ctx, SettleIn)
	if err := w.BindEntry(); err != nil {
		return err
	}
	began := history.Now()
	if w.HasPython() {
		if err := w.employPython(roles.Role{Kind: roles.PythonCustomers, Name: PythonCustomers, Rate: pythonShare * rate, Began: began}, 0); err != nil {
			return err
		}
	}
	if err := w.employ(roles.Role{Kind: roles.Stranger, Name: stranger, Seed: w.Seed, Rate: rate, Began: began}, 1); err != nil {
		return err
	}
	return w.employ(roles.Role{Kind: roles.Customers, Name: Customers, Seed: w.Seed, Rate: rate, Began: began, Ends: began + duration.Microseconds()}, 2)
}

// HasPython says whether there is a shop in Python.
func (w *World) HasPython() bool { return w.PostgreSQL != nil }

// customers names the processes that place orders.
func (w *World) customers() []string {
	if w.HasPython() {
		return []string{Customers, stranger, PythonCustomers}
	}
	return []string{Customers, stranger}
}

// BindEntry has the consumers' queues get what was published to the tracked entry. A consumer
// does so for the default one alone.
func (w *World) BindEntry() error {
	var err error
	for began := time.Now(); time.Since(began) < startWithin && w.ctx.Err() == nil; sleep.For(w.ctx, 100*time.Millisecond) {
		err = w.WithChannel(func(ch *amqp.Channel) error {
			exchange := w.Topology.ReadyExchangeOf(shop.TrackedEntry().Name)
			return errors.Join(ch.QueueBind(shop.Queue, shop.ClosingKey, exchange, false, nil), ch.QueueBind(shop.Queue, shop.MailKey, exchange, false, nil),
				ch.QueueBind(shop.MailQueue, shop.MailKey, exchange, false, nil))
		})
		if err == nil {
			break // the consumers have declared their queues
		}
	}
	return err
}

// employ starts a process at one of the nodes.
func (w *World) employ(r roles.Role, node int) error {
	var err error
	node %= len(w.Nodes)
	link := r.Name + " - " + RabbitMQ
	w.homes[link] = node
	if r.AMQP, err = w.network.connect(link, w.Nodes[node].AMQPURL()); err != nil {
		return err
	}
	if r.Redis, err = w.network.connect(r.Name+" - "+Redis, w.Redis.URL()); err != nil {
		return err
	}
	r.Dir, r.Topology, r.Stores = w.Dir, shop.Topology(), w.shops
	p := NewProcess(&w.host, r)
	w.Processes[r.Name] = p
	return p.Start(nil)
}

// employPython starts one of the shop's processes.
func (w *World) employPython(r roles.Role, node int) error {
	r.Seed, r.Queue, r.Bind = w.Seed, shop.PythonQueue, []string{shop.PythonKey}
	r.Unasked, r.Ahead = shop.Lead.Microseconds(), roles.RelayedWithin.Microseconds()
	return w.employ(r, node)
}
