package fault

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"
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
	anywhere = single | clustered
)

// Names that scenarios lock, beside those of processes.
const (
	rabbitMQ     = "rabbitmq"
	redisServer  = "redis"
	rabbitMQNet  = "links to rabbitmq"
	redisNet     = "links to redis"
	orderStores  = "order stores"
	ourProcesses = "" // stands for all processes
)

// injection is one use of a scenario.
type injection struct {
	*world
	ctx context.Context
	rng *rand.Rand
}

// hold leaves things as they are for a while.
func (i *injection) hold(least, most time.Duration) { pause(i.ctx, i.between(least, most)) }

func (i *injection) between(least, most time.Duration) time.Duration {
	return least + time.Duration(i.rng.Int64N(int64(most-least)+1))
}

func (i *injection) oneBridge() *process   { return i.processes[bridgeName(i.rng.IntN(bridges))] }
func (i *injection) oneConsumer() *process { return i.processes[consumerName(i.rng.IntN(consumers))] }

// scenarios lists all of them, in the order in which they are tried alone.
func scenarios() []scenario {
	return slices.Concat(processScenarios(), rabbitMQScenarios(), queueScenarios(), topologyScenarios(), redisScenarios(), storeScenarios(), networkScenarios(), clusterScenarios())
}

// locksOf returns what a scenario holds.
func (w *world) locksOf(s *scenario) []string {
	var names []string
	for _, need := range s.needs {
		if need != ourProcesses {
			names = append(names, need)
			continue
		}
		for name := range w.processes {
			names = append(names, name)
		}
	}
	return names
}

// until polls a condition, for no longer than patience.
func (i *injection) until(patience time.Duration, done func() bool) bool {
	for began := time.Now(); i.ctx.Err() == nil; pause(i.ctx, 20*time.Millisecond) {
		if done() {
			return true
		}
		if time.Since(began) > patience {
			return false
		}
	}
	return false
}
