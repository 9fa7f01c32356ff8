package fault

import (
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/topology"
)

// The run's topology: short delays, so that each path sees many orders.
const (
	prefix = "fault"
	shards = 4
	lead   = 5 * time.Second
	// repairEvery is how often bridges and consumers look for what was deleted.
	repairEvery = 2 * time.Second
	// queue is that of most orders. Their routing keys are closingKey and mailKey.
	queue      = "shop.closing"
	keyPrefix  = "order."
	closingKey = keyPrefix + "a"
	// slowQueue is that of the orders whose routing key is slowKey.
	slowQueue = "shop.slow"
	slowKey   = keyPrefix + "slow"
	// mailQueue is a second one to which those go whose routing key is mailKey.
	mailQueue = "shop.mails"
	mailKey   = keyPrefix + "b"
	// plainQueue is that of the orders whose routing key is plainKey. Its consumer does not
	// ask Redis.
	plainQueue = "shop.plain"
	plainKey   = keyPrefix + "plain"
	// strangersQueue is that of the strangers. Its consumer asks Redis.
	strangersQueue = "strangers"
	// pythonQueue is that of the shop in Python, and pythonKey the routing key of its orders.
	pythonQueue = "shop.python"
	pythonKey   = keyPrefix + "python"
	// greeting is the body of a message that belongs to no order.
	greeting = "hello"
	// forgedBody is that of all messages of a stranger.
	forgedBody = "forged"
)

// trackedEntry is where some of the foreign clients publish.
func trackedEntry() topology.Entry {
	return topology.Entry{Name: "tracked", Kind: amqp.ExchangeTopic, Tracked: true}
}

// strangers are who publishes to an entry of their own and wants to harm the others.
func strangers() topology.Entry { return topology.Entry{Name: "strangers", Kind: amqp.ExchangeTopic} }

// addedEntry is there now and then. Some of what is for the tracked one is published there then.
func addedEntry() topology.Entry { return topology.Entry{Name: "added", Kind: amqp.ExchangeDirect} }

func tiers() []time.Duration { return []time.Duration{time.Second, 2 * time.Second, 5 * time.Second} }

func shortDelays() topology.Config {
	return topology.Config{Prefix: prefix, Tiers: tiers(), Lead: lead, Shards: shards, Entries: []topology.Entry{trackedEntry(), strangers()}}
}

// otherTiers is the run's topology while its tiers are changed.
func otherTiers() topology.Config {
	return topology.Config{
		Prefix: prefix, Tiers: []time.Duration{time.Second, 3 * time.Second, 5 * time.Second}, Lead: 3 * time.Second, Shards: shards,
		Entries: []topology.Entry{trackedEntry(), strangers(), addedEntry()},
	}
}
