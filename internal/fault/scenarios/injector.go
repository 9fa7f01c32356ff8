package scenarios

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/internal/fault/world"
)

// Injector breaks one world, and counts what it has broken. Scenarios that break the same thing
// wait for each other.
type Injector struct {
	world *world.World
	locks locks

	mu       sync.Mutex
	faults   int
	injected map[string]int // by scenario
}

// NewInjector returns an injector that has broken nothing yet.
func NewInjector(w *world.World) *Injector { return &Injector{world: w, injected: map[string]int{}} }

// Inject uses a scenario once. An error means that the injector failed, or that ctx has ended.
func (in *Injector) Inject(ctx context.Context, s *Scenario, rng *rand.Rand) error {
	i := injection{World: in.world, Scenario: s, injector: in, ctx: ctx, rng: rng}
	release := in.locks.hold(in.locksOf(s))
	defer release()
	err := s.inject(&i)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("inject %q: %w", s.Name, err)
	}
	in.mu.Lock()
	in.injected[s.Name]++
	in.mu.Unlock()
	i.hold(100*time.Millisecond, 800*time.Millisecond)
	return nil
}

// Broken counts what was broken.
func (in *Injector) Broken() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.faults
}

// Uses counts how often each scenario was used.
func (in *Injector) Uses() map[string]int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return maps.Clone(in.injected)
}

// locksOf returns what a scenario holds.
func (in *Injector) locksOf(s *Scenario) []string {
	var names []string
	for _, need := range s.needs {
		if need != ourProcesses {
			names = append(names, need)
			continue
		}
		for name := range in.world.Processes {
			names = append(names, name)
		}
	}
	return names
}

// locks has one holder per name at a time, so that no two scenarios break, and
// mend, the same thing.
type locks struct {
	mu   sync.Mutex
	held map[string]bool
	free sync.Cond
}

// hold waits for all names at once and returns what gives them back.
func (l *locks) hold(names []string) (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held, l.free.L = map[string]bool{}, &l.mu
	}
	for slices.ContainsFunc(names, func(name string) bool { return l.held[name] }) {
		l.free.Wait()
	}
	for _, name := range names {
		l.held[name] = true
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, name := range names {
			delete(l.held, name)
		}
		l.free.Broadcast()
	}
}
