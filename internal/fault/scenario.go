package fault

import (
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/internal/fault/world"
)

// scenario breaks something, and mends it.
type scenario struct {
	name string
	// needs are the things it breaks, or could not bear to see broken.
	needs []string
	// where says which worlds have what it breaks.
	where where
	// inject does it once. An error means that the injector failed, not the bridge.
	inject func(*injection) error
}

// where is a set of kinds of worlds.
type where int

const (
	single where = 1 << iota
	clustered
	// apart takes minutes: it is no part of the mixture, nor of short runs.
	apart
	anywhere = single | clustered
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

// scenarios lists all of them, in the order in which they are tried alone.
func scenarios() []scenario {
	return slices.Concat(processScenarios(), rabbitMQScenarios(), queueScenarios(), topologyScenarios(), redisScenarios(), storeScenarios(), networkScenarios(), clusterScenarios())
}

// Scenarios names what a run breaks.
func Scenarios() []string {
	var names []string
	for _, s := range scenarios() {
		names = append(names, s.name)
	}
	return names
}
