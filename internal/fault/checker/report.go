package checker

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// ViolationKind says which promise was broken.
type ViolationKind string

// Kinds of violations.
const (
	KindLost   ViolationKind = "lost"
	KindEarly  ViolationKind = "early"
	KindDouble ViolationKind = "double"
	KindWrong  ViolationKind = "wrong"
	KindLate   ViolationKind = "late"
)

// Violation is a promise that was broken for an order. An order has at most one
// of each kind.
type Violation struct {
	Kind  ViolationKind
	Order string   // empty for the stock, for what is stored, and for messages without ID
	Rules []string // that object to it
	Why   string   // everything that proves it
}

// String returns the violation as one line.
func (v Violation) String() string {
	if v.Order == "" {
		return v.said()
	}
	return fmt.Sprintf("order %s: %s", v.Order, v.said())
}

// said returns all but the order.
func (v Violation) said() string {
	return fmt.Sprintf("%s (%s): %s", v.Kind, strings.Join(v.Rules, "; "), v.Why)
}

// RuleCount says what a rule has decided in a run.
type RuleCount struct {
	Rule   string
	Judged int // orders, articles or stores over which there was anything to decide
	Broken int // of these
}

// Counts are what happened in a run, or in an act of it.
type Counts struct {
	Orders     int // placed
	Received   int // orders of which a message was received whose due time is known
	Faults     int // injected
	Duplicates int // deliveries beyond the first one of an attempt to handle the message

	// Violations by kind.
	Lost, Early, Double, Wrong, Late int

	// Worst is the worst lateness: of the Received orders' first deliveries.
	Worst time.Duration
}

// Act is what happened to the orders placed in one act.
type Act struct {
	Name string // empty for what belongs to none
	Counts
}

// Report is what [Check] has found.
type Report struct {
	Counts           // of the whole run
	Acts       []Act // in the order of appearance
	Violations []Violation
	Rules      []RuleCount // what was judged, and how often

	runs []*run
}

// Merge returns one report of many runs. What acts of one name have in common is
// added up. Runs may have used the same IDs for orders.
func Merge(reports ...*Report) *Report {
	merged := &Report{}
	for _, r := range reports {
		for _, a := range r.Acts {
			merged.count(a.Name, a.Counts)
		}
		merged.Violations = append(merged.Violations, r.Violations...)
		for _, c := range r.Rules {
			merged.decided(c)
		}
		merged.runs = append(merged.runs, r.runs...)
	}
	return merged
}

// count adds c to an act and to the whole.
func (r *Report) count(act string, c Counts) {
	if c == (Counts{}) && act == "" {
		return // not worth a row
	}
	r.act(act).add(c)
	r.add(c)
}

// act returns the counts of an act, which is new if it has none yet. They are
// valid until the next call.
func (r *Report) act(name string) *Counts {
	for i := range r.Acts {
		if r.Acts[i].Name == name {
			return &r.Acts[i].Counts
		}
	}
	r.Acts = append(r.Acts, Act{Name: name})
	return &r.Acts[len(r.Acts)-1].Counts
}

func (c *Counts) add(more Counts) {
	if more.Received > 0 && (c.Received == 0 || more.Worst > c.Worst) {
		c.Worst = more.Worst
	}
	c.Orders += more.Orders
	c.Received += more.Received
	c.Faults += more.Faults
	c.Duplicates += more.Duplicates
	c.Lost += more.Lost
	c.Early += more.Early
	c.Double += more.Double
	c.Wrong += more.Wrong
	c.Late += more.Late
}

// Summary returns the account of the run with the given seed as one line.
func (r *Report) Summary(seed uint64) string {
	return fmt.Sprintf("fault: seed=%d orders=%d faults=%d lost=%d early=%d double=%d wrong=%d late=%d",
		seed, r.Orders, r.Faults, r.Lost, r.Early, r.Double, r.Wrong, r.Late)
}

// Table writes a row for each act and one for all.
func (r *Report) Table(w io.Writer) {
	rows := [][]string{{"scenario", "orders", "faults injected", "duplicates delivered", "lost", "early", "double effects", "wrong", "late", "worst lateness"}}
	for i := range r.Acts {
		name := r.Acts[i].Name
		if name == "" {
			name = "(none)"
		}
		rows = append(rows, r.Acts[i].row(name))
	}
	writeTable(w, append(rows, r.row("total")))
}

// RuleTable writes a row for each rule: over how much it had anything to decide, and how
// much of that broke it.
func (r *Report) RuleTable(w io.Writer) {
	rows := [][]string{{"rule", "judged", "broken"}}
	for _, c := range r.Rules {
		rows = append(rows, []string{c.Rule, strconv.Itoa(c.Judged), strconv.Itoa(c.Broken)})
	}
	writeTable(w, rows)
}

func writeTable(w io.Writer, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len(cell))
		}
	}
	for _, row := range rows {
		fmt.Fprintf(w, "%-*s", widths[0], row[0])
		for i, cell := range row[1:] {
			fmt.Fprintf(w, "  %*s", widths[i+1], cell)
		}
		fmt.Fprintln(w)
	}
}

func (c *Counts) row(name string) []string {
	row := []string{name}
	for _, n := range []int{c.Orders, c.Faults, c.Duplicates, c.Lost, c.Early, c.Double, c.Wrong, c.Late} {
		row = append(row, strconv.Itoa(n))
	}
	if c.Received == 0 {
		return append(row, "-")
	}
	return append(row, c.Worst.Round(100*time.Microsecond).String())
}
