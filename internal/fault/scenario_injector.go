package fault

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

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

func (w *world) inject(ctx context.Context, s *scenario, rng *rand.Rand) error {
	i := injection{world: w, scenario: s, ctx: ctx, rng: rng}
	release := w.locks.hold(w.locksOf(s))
	defer release()
	err := s.inject(&i)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("inject %q: %w", s.name, err)
	}
	w.mu.Lock()
	w.injected[s.name]++
	w.mu.Unlock()
	i.hold(100*time.Millisecond, 800*time.Millisecond)
	return nil
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
