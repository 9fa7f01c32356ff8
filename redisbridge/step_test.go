package redisbridge_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
)

// Where each step is, is seen by whether Redis holds the message.
func TestObserveEachStep(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	steps := &stepLog{seen: map[string][]string{}, published: map[string]int{}, settled: make(chan string, 2)}
	b.run(t, func(c *redisbridge.Config) {
		c.Observe = func(step redisbridge.Step, id string, path message.Path) {
			held, err := redisbridge.Holds(t.Context(), b.client, b.topology, id)
			if err != nil {
				t.Error(err)
			}
			steps.note(step, id, fmt.Sprintf("%v %q held %v", step, path, held))
		}
	})
	lane, ready := message.Path("parked, then lane 1s"), message.Path(wire.ReadyPath)
	b.parkOne(t, "by lane", message.After(1200*time.Millisecond))
	b.parkOne(t, "to ready", message.After(300*time.Millisecond))
	for range 2 {
		select {
		case <-steps.settled:
		case <-time.After(patience):
			t.Fatalf("not settled within %v; seen %v", patience, steps.seen)
		}
	}
	steps.mu.Lock()
	defer steps.mu.Unlock()
	for id, path := range map[string]message.Path{"by lane": lane, "to ready": ready} {
		seen := steps.seen[id]
		// What Redis holds at StepPublished depends on how fast the confirm is.
		wanted := []string{
			`claimed "" held true`,
			fmt.Sprintf(`confirmed %q held true`, path),
			fmt.Sprintf(`settled %q held false`, path),
		}
		if fmt.Sprint(seen) != fmt.Sprint(wanted) || steps.published[id] != 1 {
			t.Errorf("%s: seen %q, published %d times; want %q, published once", id, seen, steps.published[id], wanted)
		}
	}
}

// stepLog notes the steps of each message.
type stepLog struct {
	mu        sync.Mutex
	seen      map[string][]string // without StepPublished
	published map[string]int
	settled   chan string
}

func (l *stepLog) note(step redisbridge.Step, id, what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if step == redisbridge.StepPublished {
		l.published[id]++
		return
	}
	l.seen[id] = append(l.seen[id], what)
	if step == redisbridge.StepSettled {
		l.settled <- id
	}
}
