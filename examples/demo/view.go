package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

const (
	shown = 37 * time.Second // what the timeline spans
	frame = 100 * time.Millisecond
)

// view shows what happens.
type view interface {
	tell(event)   // is called as things happen
	draw(picture) // is called for every frame
}

// newView is a timeline in place on a terminal that is large enough for this many
// rows, and plain lines everywhere else.
func newView(out *os.File, rows int) view {
	fd := int(out.Fd())
	if width, height, err := term.GetSize(fd); err == nil && os.Getenv("TERM") != "dumb" && fits(width, height, rows) {
		return &screen{out: out, bar: min(width-besides, maxBar), colour: os.Getenv("NO_COLOR") == ""}
	}
	return lines{out}
}

// watch draws until every order is settled, ctx ends or the curtain falls.
func watch(ctx context.Context, v view, l *ledger) {
	fall := time.NewTimer(curtain)
	defer fall.Stop()
	tick := time.NewTicker(frame)
	defer tick.Stop()
	for {
		v.draw(l.picture())
		select {
		case <-l.settled:
			v.draw(l.picture())
			return
		case <-ctx.Done():
			return
		case <-fall.C:
			return
		case <-tick.C:
		}
	}
}

// lines tells the story line by line, for pipes.
type lines struct{ out io.Writer }

func (v lines) tell(e event) {
	fmt.Fprintf(v.out, "%6.2fs  %s  %s\n", e.at.Seconds(), e.id, e.what)
}

func (lines) draw(picture) {}
