// Package scenarios breaks a world on purpose: it kills, stops, cuts off, fills up, deletes and
// changes what there is, and mends it again.
//
// [All] lists the scenarios in a fixed order, and an [Injector] uses them, several at a time where they
// break different things. All choices within a scenario follow from the random numbers that it is
// given. What does not come right after it has mended what it broke is a surprise, or the history's to
// find.
package scenarios

import (
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/internal/fault/world"
)

// Scenario breaks something, and mends it.
type Scenario struct {
	Name string
	// needs are the things it breaks, or could not bear to see broken.
	needs []string
	// Where says which worlds have what it breaks.
	Where Where
	// inject does it once. An error means that the injector failed, not the bridge.
	inject func(*injection) error
}

// Where is a set of kinds of worlds.
type Where int

// Kinds of worlds: with one node of RabbitMQ, and with a cluster of them.
const (
	Single Where = 1 << iota
	Clustered
	// Apart takes minutes: it is no part of the mixture, nor of short runs.
	Apart
	Anywhere = Single | Clustered
)

// Names that scenarios lock, beside those of processes.
const (
	rabbitMQ     = world.RabbitMQ
	redisServer  = world.Redis
	rabbitMQNet  = "links to rabbitmq"
	redisNet     = "links to redis"
	orderStores  = "order stores"
	ourProcesses = "" // stands for all processes
)

// everything is what a scenario needs that must be alone.
func everything() []string {
	return []string{rabbitMQ, rabbitMQNet, redisServer, redisNet, orderStores, ourProcesses}
}

// aftermath returns for how long orders may still be late when a scenario has mended what it
// broke; 0 is the usual. What a queue has not taken, or what has found none, the dead-letter
// workers of RabbitMQ try again after up to three minutes (rabbit_fifo_dlx_worker,
// settle_timeout). So they do with what was under way when a node died.
func aftermath(scenario string) time.Duration {
	switch scenario {
	case "tiers and lanes refuse", "target refuses", "target unbound", "target answers nothing",
		"empty queue deleted", "exchange deleted", "binding deleted", "rabbitmq killed", "rabbitmq and redis killed", "node down", "node stopped", "cluster parted":
		return 200 * time.Second
	default:
		return 0
	}
}

// All lists all scenarios, in the order in which they are tried alone.
func All() []Scenario {
	return slices.Concat(processScenarios(), rabbitMQScenarios(), queueScenarios(), topologyScenarios(), redisScenarios(), storeScenarios(), networkScenarios(), clusterScenarios())
}

// Names lists the names of [All].
func Names() []string {
	var names []string
	for _, s := range All() {
		names = append(names, s.Name)
	}
	return names
}
