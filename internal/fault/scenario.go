package fault

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/internal/fault/history"
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
	// apart takes minutes: it is no part of the mixture, nor of runs shorter than leastWithApart.
	apart
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

// everything is what a scenario needs that must be alone.
func everything() []string {
	return []string{rabbitMQ, rabbitMQNet, redisServer, redisNet, orderStores, ourProcesses}
}

// injection is one use of a scenario.
type injection struct {
	*world
	*scenario
	ctx context.Context
	rng *rand.Rand
}

// breaks notes that something is broken from now on, until mended is called.
func (i *injection) breaks(format string, args ...any) (mended func()) {
	return i.breaksAs(history.Event{Detail: fmt.Sprintf(format, args...)})
}

// breaksAs is breaks for a fault of which there is more to say.
func (i *injection) breaksAs(e history.Event) (mended func()) {
	i.mu.Lock()
	i.faults++
	i.mu.Unlock()
	e.Kind, e.Aftermath = history.Fault, aftermath(i.name).Microseconds()
	i.note(e)
	return func() { i.note(history.Event{Kind: history.Mended, Detail: e.Detail, Queue: e.Queue}) }
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

// hold leaves things as they are for a while.
func (i *injection) hold(least, most time.Duration) { pause(i.ctx, i.between(least, most)) }

func (i *injection) between(least, most time.Duration) time.Duration {
	return least + time.Duration(i.rng.Int64N(int64(most-least)+1))
}

func (i *injection) oneBridge() *process { return i.processes[bridgeName(i.rng.IntN(bridges))] }
func (i *injection) oneRelay() *process  { return i.processes[relayName(i.rng.IntN(relays))] }
func (i *injection) oneConsumer() *process {
	return i.processes[allConsumers()[i.rng.IntN(consumers+1)]]
}

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
