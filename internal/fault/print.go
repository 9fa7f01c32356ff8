package fault

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/delaybridge/delaybridge/internal/fault/scenarios"
)

// mostStories bounds how many broken orders a report tells about.
const mostStories = 5

// Print writes the table, the stories of broken orders and the account, and
// returns the exit code: 0, or 1 where a promise was broken.
func (r *Result) Print(out, errs io.Writer, c Config) int {
	r.Table(out)
	fmt.Fprintln(out)
	r.RuleTable(out)
	told := map[string]bool{}
	for _, v := range r.Violations {
		fmt.Fprintln(errs, v)
		if v.Order != "" && !told[v.Order] && len(told) < mostStories {
			told[v.Order] = true
			r.Story(errs, v.Order)
		}
	}
	for _, surprise := range r.Surprises {
		fmt.Fprintln(errs, "unexpected:", surprise)
	}
	for _, dir := range r.Dirs {
		fmt.Fprintf(errs, "the history is in %s: go run ./internal/fault/cmd/fault -check %s -story ORDER\n", dir, dir)
	}
	if untried := r.untried(); c.Only == "" && len(untried) > 0 {
		fmt.Fprintf(errs, "fault: there was no time for %s\n", strings.Join(untried, ", "))
	}
	if !r.Good() {
		fmt.Fprintf(errs, "to do the same again: make fault DURATION=%v SEED=%d%s\n", c.Duration, c.Seed, prefixed(" STORE=", c.Store))
	}
	fmt.Fprintln(out, r.summary(c.Seed))
	if r.Good() {
		return 0
	}
	return 1
}

// untried names the scenarios that the run has not come to.
func (r *Result) untried() []string {
	return slices.DeleteFunc(scenarios.Names(), func(name string) bool {
		return r.Injected[name] > 0 || slices.Contains(r.Withheld, name)
	})
}

// summary counts surprises as wrong.
func (r *Result) summary(seed uint64) string {
	total := *r.Report
	total.Wrong += len(r.Surprises)
	return total.Summary(seed)
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}
