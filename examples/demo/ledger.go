package main

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/consumer/orders"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
)

// ledger notes all that happens to each order, as seen from outside the bridge.
type ledger struct {
	mu      sync.Mutex
	began   time.Time
	rows    []row
	byID    map[string]int
	settled chan struct{} // closed once every message has come and every customer has acted
	open    int           // rows not yet settled
	tell    func(event)
}

// row is what is known of one order.
type row struct {
	planned
	placed    time.Time // before its message was published: the delay counts from here
	path      message.Path
	expected  int // messages
	promoted  time.Time
	delivered []delivered
	paid      time.Time // when the payment was accepted
	refused   time.Time // when it was not
	untold    []string  // what happened before placed was known
}

// delivered is one message that reached the consumer.
type delivered struct {
	at       time.Time
	lateness time.Duration
	outcome  orders.Outcome
}

// event is one thing that happened, in words.
type event struct {
	at       time.Duration // since the beginning
	id, what string
}

func newLedger(customers []planned, tell func(event)) *ledger {
	l := &ledger{byID: map[string]int{}, settled: make(chan struct{}), open: len(customers), tell: tell}
	for i, c := range customers {
		l.rows = append(l.rows, row{planned: c, expected: 1})
		l.byID[c.order.ID] = i
	}
	return l
}

// begin starts the clock.
func (l *ledger) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.began = time.Now()
}

// note changes the row of id and tells about it. What happens to a message
// before its publisher knows that it is published is told afterwards.
func (l *ledger) note(id, what string, change func(*row)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, ok := l.byID[id]
	if !ok {
		return
	}
	r := &l.rows[i]
	before := r.settled()
	change(r)
	if r.placed.IsZero() {
		r.untold = append(r.untold, what)
		return
	}
	at := time.Since(l.began)
	for _, what := range append([]string{what}, r.untold...) {
		l.tell(event{at, id, what})
	}
	r.untold = nil
	if !before && r.settled() {
		if l.open--; l.open == 0 {
			close(l.settled)
		}
	}
}

// settled reports whether nothing more is to be expected of the order.
func (r *row) settled() bool {
	return !r.placed.IsZero() && len(r.delivered) >= r.expected &&
		(r.pays == 0 || !r.paid.IsZero() || !r.refused.IsZero())
}

// wasPlaced notes an order whose message was published, beginning at the given
// instant.
func (l *ledger) wasPlaced(c planned, at time.Time, path message.Path, messages int) {
	l.note(c.order.ID, fmt.Sprintf("placed    %-6s  %s", c.when(), path), func(r *row) {
		r.placed, r.expected = at, messages
		if r.path == "" { // otherwise it has been promoted already
			r.path = path
		}
	})
}

func (l *ledger) wasRepeated(id string, parkedBefore bool) {
	what := "again     the tier holds two messages now, the second will change nothing"
	if parkedBefore {
		what = "again     Redis holds it already and keeps one"
	}
	l.note(id, what, func(*row) {})
}

// observe is told by the bridge.
func (l *ledger) observe(step redisbridge.Step, id string, path message.Path) {
	if step == redisbridge.StepConfirmed {
		l.wasPromoted(id, path)
	}
}

func (l *ledger) wasPromoted(id string, path message.Path) {
	l.note(id, "promoted  "+string(path), func(r *row) { r.promoted, r.path = time.Now(), path })
}

func (l *ledger) wasPaid(id string) {
	l.note(id, "paid", func(r *row) { r.paid = time.Now() })
}

func (l *ledger) wasRefused(id string) {
	l.note(id, "refused   the payment comes too late, the order is closed", func(r *row) { r.refused = time.Now() })
}

func (l *ledger) wasDelivered(id string, d delivered) {
	what := fmt.Sprintf("due       %s, %+d ms", d.outcome, d.lateness.Milliseconds())
	l.note(id, what, func(r *row) { r.delivered = append(r.delivered, d) })
}

// picture is the state of all orders at one moment.
type picture struct {
	rows       []row
	began, now time.Time
}

func (l *ledger) picture() picture {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := picture{rows: slices.Clone(l.rows), began: l.began, now: time.Now()}
	for i := range p.rows {
		p.rows[i].delivered = slices.Clone(p.rows[i].delivered)
	}
	return p
}
