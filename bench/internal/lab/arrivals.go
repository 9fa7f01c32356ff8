package lab

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Arrivals is when each message of one load came out.
type Arrivals struct {
	// At is when each message came out; zero if it has not. Read it after [Site.Await].
	At []time.Time
	// Again counts those that came out once more.
	Again int

	load string
	left atomic.Int64
	done chan struct{}
}

func newArrivals(load string, n int) *Arrivals {
	a := &Arrivals{load: load, At: make([]time.Time, n), done: make(chan struct{})}
	a.left.Store(int64(n))
	return a
}

// ID returns the one of the load's message i.
func (a *Arrivals) ID(i int) string { return a.load + "/" + strconv.Itoa(i) }

// Missing counts the messages that have not come out yet.
func (a *Arrivals) Missing() int { return int(a.left.Load()) }

// note is called by one goroutine.
func (a *Arrivals) note(id string, now time.Time) {
	number, ours := strings.CutPrefix(id, a.load+"/")
	i, err := strconv.Atoi(number)
	if !ours || err != nil || i >= len(a.At) {
		return
	}
	if !a.At[i].IsZero() {
		a.Again++
		return
	}
	a.At[i] = now
	if a.left.Add(-1) == 0 {
		close(a.done)
	}
}
