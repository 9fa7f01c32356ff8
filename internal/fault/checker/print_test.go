package checker_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/internal/fault/checker"
	"github.com/delaybridge/delaybridge/internal/fault/history"
)

// eventful is a run with one order that everything happens to, and one in calm.
func eventful() *run {
	r := closedOrder()
	r.change(history.Placed, func(e *history.Event) { e.Act, e.Detail = "redis restarts", "producer 30s" })
	r.attempt(500_000, asked-500_000, history.Unknown, 0)
	r.change(history.Received, func(e *history.Event) { e.At, e.Intact = 1000*due-1, false })
	r.deliver(31_105_000, other, history.EffectClosed)
	r.final.Orders[order] = history.OrderState{State: history.StateClosed, Closings: 2}
	r.final.Stock[0].Have += 3
	r.leave("delaybridge.quarantine", order, "not understood")

	injector := func(at int64, kind history.Kind, act, what string) {
		r.events = append(r.events, history.Event{At: at, Who: "injector/1", Kind: kind, Act: act, Detail: what})
	}
	injector(-500_003, history.Fault, "redis restarts", "just over")
	injector(-500_001, history.Mended, "redis restarts", "just over")
	injector(-500_002, history.Fault, "redis restarts", "just not over")
	injector(-500_000, history.Mended, "redis restarts", "just not over")
	injector(2_000, history.Fault, "redis restarts", "redis stopped")
	injector(700_000, history.Mended, "redis restarts", "redis stopped")
	injector(5_000_000, history.Fault, "calm", "bridge-1 killed")
	injector(31_000_000, history.Fault, "calm", "consumer-1 cut off")
	injector(40_000_000, history.Mended, "calm", "consumer-1 cut off")
	injector(50_000_000, history.Fault, "calm", "too late to matter")

	for _, e := range closedOrder().events {
		e.Order = "o-2"
		r.events = append(r.events, e)
	}
	r.final.Orders["o-2"] = history.OrderState{State: history.StateClosed, Closings: 1}
	for i := range r.events { // a second before the first event is also a time
		e := &r.events[i]
		e.At += 10_000_000
		if e.NotBefore > 0 {
			e.NotBefore += 10_000_000
		}
		if e.Due > 0 {
			e.Due += 10_000
		}
	}
	return r
}

// golden compares got with a file in testdata; with the variable UPDATE_GOLDEN it
// writes the file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("wrote\n%s\nwant\n%s", got, want)
	}
}

func TestStory(t *testing.T) {
	t.Parallel()
	r := eventful()
	report := checker.Check(r.events, r.final)
	var out bytes.Buffer
	report.Story(&out, order)
	golden(t, "story.txt", out.String())

	out.Reset()
	report.Story(&out, "o-3")
	if out.String() != "order o-3: nothing is known\n" {
		t.Errorf("of an unknown order: %s", &out)
	}
}

// A message that never came has no last event worth mentioning: what counts is
// what happened until it was due.
func TestStoryOfALostMessageGoesOnUntilItWasDue(t *testing.T) {
	t.Parallel()
	r := eventful()
	r.drop(history.Received, history.Effect, history.Acknowledged)
	var out bytes.Buffer
	checker.Check(r.events, r.final).Story(&out, order)
	if text := out.String(); !strings.Contains(text, "consumer-1 cut off") || strings.Contains(text, "too late to matter") {
		t.Errorf("the story is\n%s", text)
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	r := eventful()
	var out bytes.Buffer
	checker.Check(r.events, r.final).Table(&out)
	golden(t, "table.txt", out.String())
}

func TestRuleTable(t *testing.T) {
	t.Parallel()
	r := eventful()
	var out bytes.Buffer
	checker.Check(r.events, r.final).RuleTable(&out)
	golden(t, "rules.txt", out.String())
}

func TestSummary(t *testing.T) {
	t.Parallel()
	r := eventful()
	want := "fault: seed=7 orders=2 faults=6 lost=0 early=1 double=1 wrong=2 late=0"
	if got := checker.Check(r.events, r.final).Summary(7); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Two runs may use the same IDs and the same acts.
func TestMerge(t *testing.T) {
	t.Parallel()
	good, bad := closedOrder(), eventful()
	good.change(history.Received, func(e *history.Event) { e.At += 5_000 })
	good.change(history.Effect, func(e *history.Event) { e.At += 5_000 })
	merged := checker.Merge(checker.Check(good.events, good.final), checker.Check(bad.events, bad.final))
	var out bytes.Buffer
	merged.Table(&out)
	golden(t, "merged.txt", out.String())
	if len(merged.Violations) != 4 || merged.Orders != 3 {
		t.Errorf("%d orders, violations %v", merged.Orders, merged.Violations)
	}

	out.Reset()
	merged.Story(&out, order)
	golden(t, "story.txt", out.String()) // only of the run that broke a promise

	out.Reset()
	merged.Story(&out, "o-2")
	if n := strings.Count(out.String(), "order o-2"); n != 1 {
		t.Errorf("order o-2 is told %d times:\n%s", n, &out)
	}
}
