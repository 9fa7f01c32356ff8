package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/consumer/orders"
	"github.com/delaybridge/delaybridge/message"
)

// ANSI escape sequences.
const (
	reset  = "\x1b[0m"
	bold   = "\x1b[1m"
	dim    = "\x1b[2m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	blue   = "\x1b[34m"
	cyan   = "\x1b[36m"

	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	cursorUp   = "\x1b[%dA\r"
	clearLine  = "\x1b[K"
)

// Columns of the timeline besides the bars.
const (
	columns  = "%-4s  %-6s  %-16s  %s  %s"
	besides  = 4 + 2 + 6 + 2 + 16 + 2 + 2 + statusWidth
	minBar   = 18
	maxBar   = 76
	overhead = 3 // lines besides the rows
)

const statusWidth = 28

// screen draws the timeline in place, for terminals.
type screen struct {
	out    io.Writer
	bar    int // cells of a bar
	colour bool
	drawn  int // lines drawn so far, to be drawn over
}

// fits reports whether a terminal is large enough for a timeline in place.
func fits(width, height, rows int) bool {
	return width >= besides+minBar && height > rows+overhead
}

func (*screen) tell(event) {}

// draw draws all rows, over what it has drawn before.
func (s *screen) draw(p picture) {
	var b strings.Builder
	b.WriteString(hideCursor)
	if s.drawn > 0 {
		fmt.Fprintf(&b, cursorUp, s.drawn)
	}
	line := func(text string) {
		b.WriteString(text)
		b.WriteString(clearLine + "\n")
	}
	line(s.paint(bold, fmt.Sprintf(columns, "", "to pay", "path", s.axis(), "")))
	for i := range p.rows {
		line(s.row(&p.rows[i], p))
	}
	for _, text := range s.legend() {
		line(text)
	}
	b.WriteString(showCursor)
	s.drawn = len(p.rows) + overhead
	_, _ = io.WriteString(s.out, b.String()) // a terminal that is gone ends the demo by a signal
}

func (s *screen) row(r *row, p picture) string {
	text, colour := status(r, p.now)
	return fmt.Sprintf(columns, r.order.ID, r.when(), shortPath(r.path), s.timeline(r, p), s.paint(colour, text))
}

// axis writes a mark every ten seconds.
func (s *screen) axis() string {
	cells := []byte(strings.Repeat(" ", s.bar))
	for at := time.Duration(0); at < shown; at += 10 * time.Second {
		copy(cells[s.cell(at):], fmt.Sprintf("|%ds", int(at.Seconds())))
	}
	return string(cells)
}

// cell is where an instant lies on the bar.
func (s *screen) cell(at time.Duration) int {
	return max(0, min(s.bar-1, int(at*time.Duration(s.bar)/shown)))
}

// timeline draws one bar: what has happened so far, and where the due time is.
func (s *screen) timeline(r *row, p picture) string {
	cells := make([]string, s.bar)
	for i := range cells {
		cells[i] = " "
	}
	if r.placed.IsZero() {
		return strings.Join(cells, "")
	}
	at := func(t time.Time) int { return s.cell(t.Sub(p.began)) }
	due := r.placed.Add(r.delay)
	end := p.now
	if len(r.delivered) > 0 {
		end = r.delivered[0].at
	}
	parked := isParked(r.path)
	for i := at(r.placed); i <= at(end); i++ {
		switch {
		case parked && (r.promoted.IsZero() || i < at(r.promoted)):
			cells[i] = s.paint(cyan, "┄")
		default:
			cells[i] = s.paint(yellow, "━")
		}
	}
	if end.Before(due) {
		cells[at(due)] = s.paint(dim, "│")
	}
	if len(r.delivered) > 0 {
		mark, colour := "●", green
		if r.delivered[0].outcome == orders.OutcomePaid {
			mark, colour = "○", blue
		}
		cells[at(end)] = s.paint(colour, mark)
	}
	if !r.paid.IsZero() {
		cells[at(r.paid)] = s.paint(blue, "$")
	}
	if !r.refused.IsZero() {
		cells[at(r.refused)] = s.paint(red, "×")
	}
	return strings.Join(cells, "")
}

// status says in a few words how an order is doing.
func status(r *row, now time.Time) (text, colour string) {
	if len(r.delivered) == 0 {
		switch left := r.placed.Add(r.delay).Sub(now); {
		case r.placed.IsZero():
			return "", dim
		case !r.paid.IsZero():
			return "paid", blue
		case left > 0:
			return fmt.Sprintf("%.1f s left", left.Seconds()), dim
		default:
			return "due", yellow
		}
	}
	first := r.delivered[0]
	text, colour = "closed", green
	if first.outcome == orders.OutcomePaid {
		text, colour = "paid", blue
	}
	text += fmt.Sprintf(" %+d ms", first.lateness.Milliseconds())
	switch {
	case !r.refused.IsZero():
		text += ", × refused"
	case len(r.delivered) > 1:
		text += ", 1 duplicate"
	}
	return text, colour
}

func (s *screen) legend() [2]string {
	return [...]string{
		s.paint(cyan, "┄") + " parked in Redis   " + s.paint(yellow, "━") + " in a tier or lane          " + s.paint(blue, "$") + " paid",
		s.paint(blue, "○") + " paid, left alone  " + s.paint(green, "●") + " closed, stock given back   " + s.paint(red, "×") + " payment refused",
	}
}

func (s *screen) paint(colour, text string) string {
	if !s.colour || text == "" {
		return text
	}
	return colour + text + reset
}

func isParked(path message.Path) bool {
	return strings.HasPrefix(string(path), string(message.PathParked))
}

// shortPath fits a path into its column.
func shortPath(path message.Path) string { return strings.Replace(string(path), ", then ", " > ", 1) }
