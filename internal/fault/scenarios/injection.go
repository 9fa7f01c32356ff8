package scenarios

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/delaybridge/delaybridge/internal/fault/history"
	"github.com/delaybridge/delaybridge/internal/fault/world"
	"github.com/delaybridge/delaybridge/internal/sleep"
)

// injection is one use of a scenario.
type injection struct {
	*world.World
	*Scenario
	injector *Injector
	ctx      context.Context
	rng      *rand.Rand
}

// breaks notes that something is broken from now on, until mended is called.
func (i *injection) breaks(format string, args ...any) (mended func()) {
	return i.breaksAs(history.Event{Detail: fmt.Sprintf(format, args...)})
}

// breaksAs is breaks for a fault of which there is more to say.
func (i *injection) breaksAs(e history.Event) (mended func()) {
	i.injector.mu.Lock()
	i.injector.faults++
	i.injector.mu.Unlock()
	e.Kind, e.Aftermath = history.Fault, aftermath(i.Name).Microseconds()
	i.Note(e)
	return func() { i.Note(history.Event{Kind: history.Mended, Detail: e.Detail, Queue: e.Queue}) }
}

// hold leaves things as they are for a while.
func (i *injection) hold(least, most time.Duration) { sleep.For(i.ctx, i.between(least, most)) }

func (i *injection) between(least, most time.Duration) time.Duration {
	return least + time.Duration(i.rng.Int64N(int64(most-least)+1))
}

func (i *injection) oneBridge() *world.Process {
	return i.Processes[world.BridgeName(i.rng.IntN(world.Bridges))]
}

func (i *injection) oneRelay() *world.Process {
	return i.Processes[world.RelayName(i.rng.IntN(world.Relays))]
}

func (i *injection) oneConsumer() *world.Process {
	return i.Processes[allConsumers()[i.rng.IntN(world.Consumers+1)]]
}

// until polls a condition, for no longer than patience.
func (i *injection) until(patience time.Duration, done func() bool) bool {
	for began := time.Now(); i.ctx.Err() == nil; sleep.For(i.ctx, 20*time.Millisecond) {
		if done() {
			return true
		}
		if time.Since(began) > patience {
			return false
		}
	}
	return false
}
