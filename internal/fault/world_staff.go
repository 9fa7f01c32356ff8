package fault

import (
	"errors"
	"fmt"
	"time"

	"github.com/delaybridge/delaybridge/internal/fault/roles"
	"github.com/delaybridge/delaybridge/internal/fault/shop"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/fault/history"
)

// lease is that of the bridges.
const lease = 2 * time.Second

// The processes of a world.
const (
	customersName = "customers"
	bridges       = 2
	consumers     = 2
	relays        = 2
	slowConsumer  = "consumer-slow"
	plainConsumer = "consumer-plain"
	mailConsumer  = "consumer-mails"
	stranger      = "stranger"
	strangersOwn  = "consumer-strangers"
)

// The shop in Python: a process that places orders, and one that closes them. Its orders are in
// PostgreSQL. A run without PostgreSQL has no such shop.
const (
	pythonCustomers = "python-customers"
	pythonConsumer  = "python-consumer"
	pythonShare     = 0.05 // of the rate of all others
)

func bridgeName(n int) string { return fmt.Sprintf("bridge-%d", n+1) }

func consumerName(n int) string { return fmt.Sprintf("consumer-%d", n+1) }

func relayName(n int) string { return fmt.Sprintf("relay-%d", n+1) }

// populate starts the processes, each with links of its own; customers come for duration.
func (w *world) populate(rate float64, duration time.Duration) error {
	for n := range consumers {
		if err := w.employ(roles.Role{Kind: roles.Consumer, Name: consumerName(n), Seed: w.seed, Queue: shop.Queue, Bind: []string{shop.ClosingKey, shop.MailKey}}, n); err != nil {
			return err
		}
	}
	if err := w.employ(roles.Role{Kind: roles.Consumer, Name: slowConsumer, Seed: w.seed, Queue: shop.SlowQueue, Bind: []string{shop.SlowKey}}, 2); err != nil {
		return err
	}
	if err := w.employ(roles.Role{Kind: roles.Consumer, Name: plainConsumer, Seed: w.seed, Queue: shop.PlainQueue, Bind: []string{shop.PlainKey}}, 1); err != nil {
		return err
	}
	if err := w.employ(roles.Role{Kind: roles.Consumer, Name: mailConsumer, Seed: w.seed, Queue: shop.MailQueue, Bind: []string{shop.MailKey}}, 0); err != nil {
		return err
	}
	for n := range bridges {
		if err := w.employ(roles.Role{Kind: roles.Bridge, Name: bridgeName(n), Bridge: roles.BridgeSettings{Lease: lease, RepairEvery: shop.RepairEvery}}, n+1); err != nil {
			return err
		}
	}
	for n := range relays {
		if err := w.employ(roles.Role{Kind: roles.Relay, Name: relayName(n)}, n+1); err != nil {
			return err
		}
	}
	if err := w.employ(roles.Role{Kind: roles.Consumer, Name: strangersOwn, Seed: w.seed, Queue: shop.StrangersQueue, Bind: []string{"#"}}, 2); err != nil {
		return err
	}
	if w.hasPython() {
		if err := w.employPython(roles.Role{Kind: roles.PythonConsumer, Name: pythonConsumer}, 1); err != nil {
			return err
		}
	}
	pause(w.ctx, settleIn)
	if err := w.bindEntry(); err != nil {
		return err
	}
	began := history.Now()
	if w.hasPython() {
		if err := w.employPython(roles.Role{Kind: roles.PythonCustomers, Name: pythonCustomers, Rate: pythonShare * rate, Began: began}, 0); err != nil {
			return err
		}
	}
	if err := w.employ(roles.Role{Kind: roles.Stranger, Name: stranger, Seed: w.seed, Rate: rate, Began: began}, 1); err != nil {
		return err
	}
	return w.employ(roles.Role{Kind: roles.Customers, Name: customersName, Seed: w.seed, Rate: rate, Began: began, Ends: began + duration.Microseconds()}, 2)
}

func (w *world) hasPython() bool { return w.postgreSQL != nil }

// customers names the processes that place orders.
func (w *world) customers() []string {
	if w.hasPython() {
		return []string{customersName, stranger, pythonCustomers}
	}
	return []string{customersName, stranger}
}

// bindEntry has the consumers' queues get what was published to the tracked entry. A consumer
// does so for the default one alone.
func (w *world) bindEntry() error {
	var err error
	for began := time.Now(); time.Since(began) < startWithin && w.ctx.Err() == nil; pause(w.ctx, 100*time.Millisecond) {
		err = w.channel(func(ch *amqp.Channel) error {
			exchange := w.topology.ReadyExchangeOf(shop.TrackedEntry().Name)
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
func (w *world) employ(r roles.Role, node int) error {
	var err error
	node %= len(w.nodes)
	link := r.Name + " - " + rabbitMQ
	w.homes[link] = node
	if r.AMQP, err = w.network.connect(link, w.nodes[node].AMQPURL()); err != nil {
		return err
	}
	if r.Redis, err = w.network.connect(r.Name+" - "+redisServer, w.redis.URL()); err != nil {
		return err
	}
	r.Dir, r.Topology, r.Stores = w.dir, shop.Topology(), w.shops
	p := newProcess(&w.host, r)
	w.processes[r.Name] = p
	return p.start(nil)
}

// employPython starts one of the shop's processes.
func (w *world) employPython(r roles.Role, node int) error {
	r.Seed, r.Queue, r.Bind = w.seed, shop.PythonQueue, []string{shop.PythonKey}
	r.Unasked, r.Ahead = shop.Lead.Microseconds(), roles.RelayedWithin.Microseconds()
	return w.employ(r, node)
}
