package top

import (
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
)

const (
	// meterSpan is the time that a rate is of.
	meterSpan = 10 * time.Second
	// meanSpan is the same of what the management API knows, whose rates are of five
	// seconds, and not of the same five for what goes in and what is there.
	meanSpan = 20 * time.Second
	// lateSpan is the time that a lateness is of.
	lateSpan = time.Minute
	// lateMost bounds how many deliveries are kept.
	lateMost = 50_000
)

// meter makes a rate of a count.
type meter struct {
	span   time.Duration
	points []point
}

type point struct {
	at time.Time
	n  int64
}

// add takes a count. One that only grows, and is less than before, was begun anew.
func (m *meter) add(at time.Time, n int64, grows bool) {
	if last := len(m.points) - 1; last >= 0 && grows && n < m.points[last].n {
		m.points = nil
	}
	old := 0 // keep one that is as old as the span
	for old+1 < len(m.points) && at.Sub(m.points[old+1].at) >= m.span {
		old++
	}
	m.points = append(slices.Delete(m.points, 0, old), point{at, n})
}

// change is how fast the count has changed.
func (m *meter) change() Rate {
	if len(m.points) < 2 {
		return Rate{}
	}
	first, last := m.points[0], m.points[len(m.points)-1]
	passed := last.at.Sub(first.at).Seconds()
	if passed <= 0 {
		return Rate{}
	}
	return Rate{float64(last.n-first.n) / passed, true}
}

// flow is a count of what goes out, and of what is there.
type flow struct{ counted, there meter }

func (f *flow) add(at time.Time, counted int64, there int) {
	f.counted.add(at, counted, true)
	if len(f.counted.points) == 1 {
		f.there.points = nil // begun anew, too
	}
	f.there.add(at, int64(there), false)
}

// rates returns what comes in, without what is cancelled, and what goes out.
func (f *flow) rates() (in, out Rate) {
	out, change := f.counted.change(), f.there.change()
	in = Rate{max(0, out.PerSecond+change.PerSecond), out.Known && change.Known}
	out.PerSecond = max(0, out.PerSecond) // what is put back counts backwards
	return in, out
}

// mean smooths the rates of queues.
type mean struct{ flows []heard }

type heard struct {
	at time.Time
	Flow
}

func (m *mean) add(at time.Time, f Flow) {
	old := 0
	for old < len(m.flows) && at.Sub(m.flows[old].at) >= meanSpan {
		old++
	}
	m.flows = append(slices.Delete(m.flows, 0, old), heard{at, f})
}

// rates returns what comes in, and what goes out.
func (m *mean) rates() (in, out Rate) {
	if m == nil || len(m.flows) == 0 {
		return Rate{}, Rate{}
	}
	var change float64
	for _, f := range m.flows {
		in.PerSecond += f.In / float64(len(m.flows))
		change += f.Change / float64(len(m.flows))
	}
	in.Known = true
	return in, Rate{max(0, in.PerSecond-change), true}
}

// delivered is a delivery as it is kept for a while.
type delivered struct {
	redisbridge.Delivery
	shard string // its name
}

// deliveries are those of the last minute, the oldest first.
type deliveries struct{ list []delivered }

// add takes what is new.
func (d *deliveries) add(shards []redisbridge.ShardStats) {
	for _, s := range shards {
		for _, one := range s.Deliveries {
			if !one.Due.IsZero() {
				d.list = append(d.list, delivered{one, s.Name})
			}
		}
	}
	slices.SortStableFunc(d.list, func(a, b delivered) int { return a.At.Compare(b.At) })
}

// forget drops what is too old, or too much.
func (d *deliveries) forget(now time.Time) {
	old := max(0, len(d.list)-lateMost)
	for old < len(d.list) && now.Sub(d.list[old].At) > lateSpan {
		old++
	}
	d.list = slices.Delete(d.list, 0, old)
}

// by sums up those that have come by a path.
func (d *deliveries) by(path message.Path) Lateness {
	return d.of(func(one delivered) bool { return one.Path == path })
}

// of sums up those that which chooses.
func (d *deliveries) of(which func(delivered) bool) Lateness {
	var late []time.Duration
	for _, one := range d.list {
		if which(one) {
			late = append(late, one.Late())
		}
	}
	if len(late) == 0 {
		return Lateness{}
	}
	slices.Sort(late)
	at := func(percent int) time.Duration { return late[(len(late)*percent+99)/100-1] }
	return Lateness{len(late), at(50), at(99), late[len(late)-1]}
}
