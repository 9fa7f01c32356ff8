package main

import (
	"encoding/binary"
	"slices"
	"sync/atomic"
	"time"
)

// tagBytes at the start of a body say which message of which phase it is.
const tagBytes = 8

// ledger is what is known of the messages of one phase. Each message has a slot
// of its own, as contenders publish and deliver from many goroutines.
type ledger struct {
	phase uint32
	began time.Time
	due   []time.Duration // since began
	out   []atomic.Int64  // nanoseconds since began, 0 is not yet
	again atomic.Int64
	left  atomic.Int64
	done  chan struct{} // closed once everything has come out
}

func newLedger(phase uint32, n int) *ledger {
	l := &ledger{
		phase: phase, began: time.Now(), done: make(chan struct{}),
		due: make([]time.Duration, n), out: make([]atomic.Int64, n),
	}
	l.left.Store(int64(n))
	return l
}

// body is a new message's. It is due a delay after this call, by the one clock
// that also says when it comes out.
func (l *ledger) body(number int, delay time.Duration) []byte {
	body := make([]byte, bodyBytes)
	binary.BigEndian.PutUint32(body, l.phase)
	binary.BigEndian.PutUint32(body[4:], uint32(number))
	l.due[number] = time.Since(l.began) + delay
	return body
}

// note takes down a delivery. What is left of another phase does not count.
func (l *ledger) note(body []byte) {
	if len(body) != bodyBytes || binary.BigEndian.Uint32(body) != l.phase {
		return
	}
	number := int(binary.BigEndian.Uint32(body[4:]))
	if !l.out[number].CompareAndSwap(0, int64(time.Since(l.began))) {
		l.again.Add(1)
		return
	}
	if l.left.Add(-1) == 0 {
		close(l.done)
	}
}

// outcome is how late messages were, in milliseconds.
type outcome struct {
	messages, delivered int
	p50, p99, worst     float64
	early               int
	earliest            float64 // how much before it was due, at worst
	twice               int
	perSecond           float64 // delivered, from when the first was due
}

// read sums up. What has not come out by now counts as if it just had: its
// lateness is at least that.
func (l *ledger) read() outcome {
	now := time.Since(l.began)
	o := outcome{messages: len(l.due), twice: int(l.again.Load())}
	late := make([]float64, len(l.due))
	first, last := slices.Min(l.due), time.Duration(0)
	for i, due := range l.due {
		out := time.Duration(l.out[i].Load())
		if out != 0 {
			o.delivered++
			first = min(first, out)
		} else {
			out = now
		}
		last = max(last, out)
		late[i] = milliseconds(out - due)
		// A clock of whole milliseconds may cut one short.
		if early := -late[i]; early >= 1 {
			o.early++
			o.earliest = max(o.earliest, early)
		}
	}
	slices.Sort(late)
	o.p50, o.p99, o.worst = quantile(late, 0.50), quantile(late, 0.99), quantile(late, 1)
	o.perSecond = float64(o.delivered) / (last - first).Seconds()
	return o
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// quantile is of sorted values, without interpolation.
func quantile(sorted []float64, q float64) float64 {
	return sorted[int(q*float64(len(sorted)-1))]
}
