package pause

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delaybridge/delaybridge/internal/sleep"
	"github.com/delaybridge/delaybridge/message"
)

// sent is a message that was published, and when it is due.
type sent struct {
	id      string
	due     time.Time
	lane    time.Duration // for which it was meant; 0 for an exact tier
	arrived time.Time
}

// load publishes for a while at the two rates. The due times are by Redis'
// clock, which is this machine's.
func (m *lab) load(ctx context.Context, name string, d, shortest, longest time.Duration) ([]sent, error) {
	tiers := []time.Duration{10 * time.Second, lane}
	if longest < lane {
		tiers = []time.Duration{5 * time.Second, 10 * time.Second}
	}
	const rate = arbitraryRate + exactRate
	all := make([]sent, int(d.Seconds()*rate))
	began := time.Now()
	var failed atomic.Pointer[error]
	var hands sync.WaitGroup
	room := make(chan struct{}, 4*rate)
	for i := range all {
		sleep.For(ctx, time.Until(began.Add(time.Duration(i)*time.Second/rate)))
		if ctx.Err() != nil || failed.Load() != nil {
			break
		}
		room <- struct{}{}
		hands.Go(func() {
			defer func() { <-room }()
			s := &all[i]
			s.id = fmt.Sprintf("%s-%d", name, i)
			const every = rate / exactRate
			delay := tiers[i/every%2]
			if i%every != 0 {
				delay = (shortest + rand.N(longest-shortest)).Truncate(time.Millisecond) + time.Millisecond
				for _, lead := range m.topology.Leads() {
					if lead <= delay {
						s.lane = lead
					}
				}
			}
			receipt, err := m.producer.Publish(ctx, message.Message{ID: s.id, RoutingKey: "k", Body: make([]byte, 256)}, message.After(delay))
			if err != nil {
				failed.Store(&err)
			}
			s.due = receipt.Due
		})
	}
	hands.Wait()
	if err := failed.Load(); err != nil {
		return nil, *err
	}
	return all, ctx.Err()
}

// await waits until everything has come, or nothing has for a while, and fills
// in the arrivals. It looks at the whole only when the number says so: while it
// does, the consumer waits.
func (m *lab) await(ctx context.Context, all []sent) {
	latest := slices.MaxFunc(all, func(a, b sent) int { return a.due.Compare(b.due) }).due
	last, changed := -1, time.Now()
	for ctx.Err() == nil && time.Since(changed) < time.Minute {
		m.mu.Lock()
		n := len(m.arrivals)
		m.mu.Unlock()
		if n >= m.before+len(all) {
			break
		}
		if n != last || time.Now().Before(latest) { // what is not due yet is no reason to give up
			last, changed = n, time.Now()
		}
		sleep.For(ctx, 200*time.Millisecond)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.before = len(m.arrivals)
	for i := range all {
		all[i].arrived = m.arrivals[all[i].id]
	}
}

// lateness is that of some messages, in ms.
type lateness struct {
	ms          []float64
	lost, early int
	sorted      bool
}

func (l *lateness) add(s *sent) {
	if s.arrived.IsZero() {
		l.lost++
		return
	}
	late := s.arrived.Sub(s.due.Truncate(time.Millisecond))
	if late < 0 {
		l.early++
	}
	l.ms = append(l.ms, float64(late.Microseconds())/1000)
}

// at returns a quantile, 0 to 1.
func (l *lateness) at(q float64) float64 {
	if len(l.ms) == 0 {
		return 0
	}
	if !l.sorted {
		slices.Sort(l.ms)
		l.sorted = true
	}
	return l.ms[min(len(l.ms)-1, int(q*float64(len(l.ms))))]
}
