// Package shop is what the processes of a fault run have in common: the topology and its queues,
// the orders, and the databases that keep them.
//
// What happens with an order follows from the seed and the order's number ([PlanOrder]). So whoever
// handles a message, and whoever judges in the end, knows what its customer has done and how its
// handling was to fail. The orders are dealt out to all [Stores]; a mailbox and an outbox are in the
// same databases.
package shop

import (
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/topology"
)

// Of the topology, its queues, and what is sent to them.
const (
	Prefix = "fault"
	Shards = 4
	Lead   = 5 * time.Second
	// RepairEvery is how often bridges and consumers look for what was deleted.
	RepairEvery = 2 * time.Second
	// Queue is that of most orders. Their routing keys are ClosingKey and MailKey.
	Queue      = "shop.closing"
	keyPrefix  = "order."
	ClosingKey = keyPrefix + "a"
	// SlowQueue is that of the orders whose routing key is SlowKey.
	SlowQueue = "shop.slow"
	SlowKey   = keyPrefix + "slow"
	// MailQueue is a second one to which those go whose routing key is MailKey.
	MailQueue = "shop.mails"
	MailKey   = keyPrefix + "b"
	// PlainQueue is that of the orders whose routing key is PlainKey. Its consumer does not
	// ask Redis.
	PlainQueue = "shop.plain"
	PlainKey   = keyPrefix + "plain"
	// StrangersQueue is that of the strangers. Its consumer asks Redis.
	StrangersQueue = "strangers"
	// PythonQueue is that of the shop in Python, and PythonKey the routing key of its orders.
	PythonQueue = "shop.python"
	PythonKey   = keyPrefix + "python"
	// Greeting is the body of a message that belongs to no order.
	Greeting = "hello"
	// Forged is the body of all messages of a stranger.
	Forged = "forged"
)

// TrackedEntry is where some of the foreign clients publish.
func TrackedEntry() topology.Entry {
	return topology.Entry{Name: "tracked", Kind: amqp.ExchangeTopic, Tracked: true}
}

// StrangersEntry is the entry of strangers, who want to harm the others.
func StrangersEntry() topology.Entry {
	return topology.Entry{Name: "strangers", Kind: amqp.ExchangeTopic}
}

// AddedEntry is there now and then. Some of what is for the tracked one is published there then.
func AddedEntry() topology.Entry { return topology.Entry{Name: "added", Kind: amqp.ExchangeDirect} }

// Tiers are those of [Topology].
func Tiers() []time.Duration { return []time.Duration{time.Second, 2 * time.Second, 5 * time.Second} }

// Topology returns the run's, with short delays, so that each path sees many orders.
func Topology() topology.Config {
	return topology.Config{Prefix: Prefix, Tiers: Tiers(), Lead: Lead, Shards: Shards, Entries: []topology.Entry{TrackedEntry(), StrangersEntry()}}
}

// OtherTopology is the run's topology while its tiers are changed.
func OtherTopology() topology.Config {
	return topology.Config{
		Prefix: Prefix, Tiers: []time.Duration{time.Second, 3 * time.Second, 5 * time.Second}, Lead: 3 * time.Second, Shards: Shards,
		Entries: []topology.Entry{TrackedEntry(), StrangersEntry(), AddedEntry()},
	}
}
