package checker

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/internal/fault/history"
)

// before is how long before an order's first event a story begins.
const before = time.Second

// Story writes all that is known of an order, in the order of time: its events,
// and the faults that were in force from one second before the first of them
// until the last, or until its message was due. If runs that were merged have the
// same order, it tells of those that broke a promise.
func (r *Report) Story(w io.Writer, order string) {
	var told []*run
	for _, run := range r.runs {
		if run.records[order] != nil {
			told = append(told, run)
		}
	}
	if slices.ContainsFunc(told, func(run *run) bool { return len(run.broken[order]) > 0 }) {
		told = slices.DeleteFunc(told, func(run *run) bool { return len(run.broken[order]) == 0 })
	}
	if len(told) == 0 {
		fmt.Fprintf(w, "order %s: nothing is known\n", order)
	}
	for _, run := range told {
		run.story(w, run.records[order])
	}
}

func (r *run) story(w io.Writer, o *record) {
	fmt.Fprintf(w, "order %s, act %q", o.id, o.act)
	if len(o.events) > 0 {
		start, end := o.span()
		fmt.Fprintf(w, ", from %s:\n", time.UnixMicro(start).UTC().Format("2006-01-02 15:04:05.000000 UTC"))
		lines := r.during(start, end)
		for _, e := range o.events {
			lines = append(lines, line{e.At, e.Who, string(e.Kind), about(&e, start)})
		}
		slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
		write(w, lines, start)
	} else {
		fmt.Fprintln(w, ": nobody wrote anything down")
	}
	fmt.Fprintf(w, "  in the end: %s\n", o.ending())
	for _, l := range o.left {
		fmt.Fprintf(w, "  left: in %s\n", l)
	}
	for _, v := range r.broken[o.id] {
		fmt.Fprintf(w, "  %s\n", v.said())
	}
}

// span returns the first instant of o and the last one that matters: of its last
// event, or when its message was due.
func (r *record) span() (start, end int64) {
	start, end = r.events[0].At, r.events[len(r.events)-1].At
	for _, e := range r.events {
		end = max(end, e.NotBefore, 1000*e.Due)
	}
	return start, end
}

// line of a story.
type line struct {
	at              int64
	who, what, more string
}

// during returns the faults that were in force between a second before start, and end.
func (r *run) during(start, end int64) []line {
	var lines []line
	from := start - before.Microseconds()
	for _, o := range r.outages {
		if o.mended < from || o.fault.At > end {
			continue
		}
		text := o.fault.Detail
		if o.mended > o.fault.At {
			text += " (mended at " + offset(o.mended-start) + ")"
		}
		lines = append(lines, line{o.fault.At, o.fault.Who, "*** fault", text})
		if o.mended > o.fault.At && o.mended <= end {
			lines = append(lines, line{o.mended, o.fault.Who, "*** mended", o.fault.Detail})
		}
	}
	return lines
}

// about returns what e says beyond its kind.
func about(e *history.Event, start int64) string {
	var parts []string
	if e.NotBefore > 0 {
		parts = append(parts, "not before "+offset(e.NotBefore-start))
	}
	if e.Due > 0 {
		parts = append(parts, "due "+offset(1000*e.Due-start))
	}
	if e.Kind == history.Received && !e.Intact {
		parts = append(parts, "NOT INTACT")
	}
	if e.Since > 0 {
		parts = append(parts, "since "+offset(1000*e.Since-start))
	}
	if e.Ahead >= time.Second.Microseconds() {
		parts = append(parts, "by a clock that is ahead by "+micros(e.Ahead).String())
	}
	if e.Attempt > 0 {
		parts = append(parts, fmt.Sprintf("attempt %d", e.Attempt+1))
	}
	if e.Detail != "" {
		parts = append(parts, e.Detail)
	}
	return strings.Join(parts, ", ")
}

func (r *record) ending() string {
	if !r.known {
		return "not in the order store"
	}
	return fmt.Sprintf("%s; closings in the store's log: %d", r.state.State, r.state.Closings)
}

func write(w io.Writer, lines []line, start int64) {
	var who, what int
	for _, l := range lines {
		who, what = max(who, len(l.who)), max(what, len(l.what))
	}
	for _, l := range lines {
		text := fmt.Sprintf("  %13s  %-*s  %-*s  %s", offset(l.at-start), who, l.who, what, l.what, l.more)
		fmt.Fprintln(w, strings.TrimRight(text, " "))
	}
}

// offset returns a number of microseconds as seconds, with its sign.
func offset(n int64) string { return fmt.Sprintf("%+.6fs", float64(n)/1e6) }
