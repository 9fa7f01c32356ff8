package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/consumer/orders"
	"github.com/delaybridge/delaybridge/message"
)

func TestScreen(t *testing.T) {
	t.Parallel()
	began := time.Now()
	at := func(seconds float64) time.Time { return began.Add(time.Duration(seconds * float64(time.Second))) }
	plannedFor := func(id string, delay time.Duration) planned {
		return planned{order: orders.Order{ID: id}, delay: delay}
	}
	p := picture{began: began, now: at(20), rows: []row{
		{planned: plannedFor("o-01", 10*time.Second), placed: at(0), path: message.Path("tier 10s"),
			delivered: []delivered{{at: at(10), lateness: 4 * time.Millisecond, outcome: orders.OutcomeClosed}}},
		{planned: plannedFor("o-02", 12*time.Second), placed: at(1), path: message.Path("parked, then lane 10s"), promoted: at(3), paid: at(8),
			delivered: []delivered{{at: at(13), outcome: orders.OutcomePaid}}},
		{planned: plannedFor("o-03", 33*time.Second), placed: at(2), path: message.PathParked},
		{planned: plannedFor("o-04", 5*time.Second), placed: at(0), path: message.Path("tier 5s"), refused: at(8),
			delivered: []delivered{{at: at(5), outcome: orders.OutcomeClosed}, {at: at(5), outcome: orders.OutcomeAlreadyClosed}}},
		{planned: plannedFor("o-05", 5*time.Second)}, // not placed yet
	}}
	var out bytes.Buffer
	s := screen{out: &out, bar: 37} // a cell is a second
	s.draw(p)
	want := strings.Join([]string{
		"      to pay  path              |0s       |10s      |20s      |30s     ",
		"o-01  10s     tier 10s          ━━━━━━━━━━●                            closed +4 ms",
		"o-02  12s     parked > lane 10s   ┄┄━━━━━$━━━━○                         paid +0 ms",
		"o-03  33s     parked              ┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄              │   15.0 s left",
		"o-04  5s      tier 5s           ━━━━━●  ×                              closed +0 ms, × refused",
		"o-05  5s                                                               ",
		"┄ parked in Redis   ━ in a tier or lane          $ paid",
		"○ paid, left alone  ● closed, stock given back   × payment refused",
	}, "\n")
	got := strings.NewReplacer(hideCursor, "", showCursor, "", clearLine, "").Replace(out.String())
	if strings.TrimRight(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	out.Reset()
	s.draw(p)
	if !strings.Contains(out.String(), "\x1b[8A") {
		t.Errorf("the second frame is not drawn over the first: %q", out.String()[:40])
	}
	if strings.Contains(out.String(), dim) {
		t.Error("colours without being asked")
	}
}

func TestFits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		width, height int
		want          bool
	}{{120, 40, true}, {80, 24, true}, {80, 23, false}, {79, 40, false}} {
		if got := fits(c.width, c.height, 20); got != c.want {
			t.Errorf("%d x %d: got %v", c.width, c.height, got)
		}
	}
}
