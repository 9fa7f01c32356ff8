package checker_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/internal/fault/checker"
	"github.com/delaybridge/delaybridge/internal/fault/history"
)

// What the client did concerns both queues to which a message goes. What comes of it is judged
// for each by itself.
func TestEachQueueIsJudgedByItself(t *testing.T) {
	t.Parallel()
	const second = "mails"
	twin := history.InQueue("o-1", second)
	for name, tc := range map[string]struct {
		add      []history.Event
		state    history.OrderState
		violates string
	}{
		"it comes to both": {
			add: []history.Event{
				{At: 3_000_000, Kind: history.Received, Order: twin, Intact: true},
				{At: 3_000_001, Kind: history.Effect, Order: twin, Detail: history.EffectClosed},
			},
			state: history.OrderState{State: history.StateClosed, Closings: 1},
		},
		"it comes to one of them": {
			state:    history.OrderState{State: history.StatePending},
			violates: "order o-1@mails: lost (published, and comes)",
		},
		"it comes to one of them while the exchange is put back": {
			add: []history.Event{
				{At: 2_500_000, Kind: history.Fault, Detail: "deleted", Splits: true},
				{At: 2_900_000, Kind: history.Mended, Detail: "deleted"},
			},
			state: history.OrderState{State: history.StatePending},
		},
		"it is said to be delivered, and came to one of them": {
			add: []history.Event{
				{At: 2_500_000, Kind: history.Fault, Detail: "deleted", Splits: true},
				{At: 2_900_000, Kind: history.Mended, Detail: "deleted"},
				{At: 3_000_100, Kind: history.Get, Order: "o-1"},
				{At: 3_000_200, Kind: history.Got, Order: "o-1", Detail: history.GotDelivered},
				{At: 3_000_300, Kind: history.Cancel, Order: "o-1"},
				{At: 3_000_400, Kind: history.CancelLate, Order: "o-1", Since: 3000},
			},
			state: history.OrderState{State: history.StatePending},
		},
		"it is said to be delivered, and is cancelled, used again, before it came to the other": {
			add: []history.Event{
				{At: 3_000_100, Kind: history.Cancel, Order: "o-1"},
				{At: 3_000_200, Kind: history.CancelLate, Order: "o-1", Since: 3000},
				{At: 3_000_300, Kind: history.Publish, Order: "o-1", NotBefore: 9_000_000},
				{At: 3_000_400, Kind: history.Published, Order: "o-1"},
				{At: 3_000_500, Kind: history.Cancel, Order: "o-1"},
				{At: 3_000_600, Kind: history.Cancelled, Order: "o-1"},
				{At: 3_000_700, Kind: history.Dropped, Order: twin, Detail: "cancelled"},
			},
			state: history.OrderState{State: history.StatePending},
		},
		"it came to one of them before the exchange was deleted": {
			add: []history.Event{
				{At: 3_500_000, Kind: history.Fault, Detail: "deleted", Splits: true},
				{At: 3_900_000, Kind: history.Mended, Detail: "deleted"},
			},
			state:    history.OrderState{State: history.StatePending},
			violates: "order o-1@mails: lost (published, and comes)",
		},
		"it comes early to one of them": {
			add: []history.Event{
				{At: 1_500_000, Kind: history.Received, Order: twin, Intact: true},
				{At: 1_500_001, Kind: history.Effect, Order: twin, Detail: history.EffectClosed},
			},
			state:    history.OrderState{State: history.StateClosed, Closings: 1},
			violates: "order o-1@mails: early (not early)",
		},
		"it has two effects in one of them": {
			add: []history.Event{
				{At: 3_000_000, Kind: history.Received, Order: twin, Intact: true},
				{At: 3_000_001, Kind: history.Effect, Order: twin, Detail: history.EffectClosed},
			},
			state:    history.OrderState{State: history.StateClosed, Closings: 2},
			violates: "order o-1@mails: double (closed once)",
		},
		"it was cancelled, and comes to one of them": {
			add: []history.Event{
				{At: 1_000_300, Kind: history.Cancel, Order: "o-1"},
				{At: 1_000_400, Kind: history.Cancelled, Order: "o-1"},
			},
			state:    history.OrderState{State: history.StatePending},
			violates: "order o-1: wrong (cancelled, and does not come)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := wantOne(t, append([]history.Event{
				{At: 1_000_000, Kind: history.Placed, Order: "o-1", Queue: "closing", Also: second},
				{At: 1_000_100, Kind: history.Publish, Order: "o-1", NotBefore: 2_000_000},
				{At: 1_000_200, Kind: history.Published, Order: "o-1"},
				{At: 3_000_000, Kind: history.Received, Order: "o-1", Intact: true},
				{At: 3_000_001, Kind: history.Effect, Order: "o-1", Detail: history.EffectClosed},
			}, tc.add...), history.Final{Orders: map[string]history.OrderState{
				"o-1": {State: history.StateClosed, Closings: 1}, twin: tc.state,
			}}, tc.violates)
			if report.Orders != 1 {
				t.Errorf("%d orders, want 1", report.Orders)
			}
		})
	}
}

// RabbitMQ refuses a message as soon as one of its queues does. The other one has it, if the
// message was due at once; if it was not, no queue can.
func TestRefusedByOneQueueComesToTheOther(t *testing.T) {
	t.Parallel()
	const second = "mails"
	for name, tc := range map[string]struct {
		also      string
		notBefore int64
		violates  string
	}{
		"due at once":       {second, 1_000_000, ""},
		"due by then":       {second, 1_000_180, ""},
		"due later":         {second, 2_000_000, "order o-1: wrong (as it was sent)"},
		"there is no other": {"", 1_000_000, "order o-1: wrong (as it was sent)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantOne(t, []history.Event{
				{At: 1_000_000, Kind: history.Placed, Order: "o-1", Queue: "closing", Also: tc.also},
				{At: 1_000_100, Kind: history.Publish, Order: "o-1", NotBefore: tc.notBefore},
				{At: 1_000_200, Kind: history.Refused, Order: "o-1"},
				{At: 3_000_000, Kind: history.Received, Order: "o-1", Intact: true},
				{At: 3_000_001, Kind: history.Effect, Order: "o-1", Detail: history.EffectClosed},
			}, history.Final{Orders: map[string]history.OrderState{
				"o-1": {State: history.StateClosed, Closings: 1}, history.InQueue("o-1", second): {State: history.StatePending},
			}}, tc.violates)
		})
	}
}

// Of a message that one of its two queues had when a repetition of it was cancelled, it was true that it
// could not be cancelled: the other queue gets it, too. So it was in a run, in which Redis was silent meanwhile.
func TestMessageThatOneQueueHadComesToTheOther(t *testing.T) {
	t.Parallel()
	const second = "mails"
	twin := history.InQueue("o-1", second)
	for name, tc := range map[string]struct {
		due      int64 // of what the other queue had
		violates string
	}{
		"it had it before":                  {2_000, ""},
		"what it had is another repetition": {1_900, "order o-1: wrong (cancelled, and does not come)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantOne(t, []history.Event{
				{At: 1_000_000, Kind: history.Placed, Order: "o-1", Queue: "closing", Also: second, Detail: "entry 900ms"},
				{At: 1_000_100, Kind: history.Publish, Order: "o-1", NotBefore: 1_900_000},
				{At: 1_000_200, Kind: history.Published, Order: "o-1"},
				{At: 1_100_000, Kind: history.Publish, Order: "o-1", NotBefore: 2_000_000},
				{At: 1_100_100, Kind: history.Published, Order: "o-1"},
				{At: 2_400_000, Kind: history.Cancel, Order: "o-1"},
				{At: 2_500_001, Kind: history.Received, Order: twin, Asked: 2_500_000, Due: tc.due, Intact: true},
				{At: 2_500_002, Kind: history.Effect, Order: twin, Detail: history.EffectClosed},
				{At: 3_000_000, Kind: history.Cancelled, Order: "o-1"},
				{At: 4_000_000, Kind: history.Received, Order: "o-1", Asked: 4_000_000, Due: 2_000, Intact: true},
				{At: 4_000_001, Kind: history.Effect, Order: "o-1", Detail: history.EffectClosed},
			}, history.Final{Orders: map[string]history.OrderState{
				"o-1": {State: history.StateClosed, Closings: 1}, twin: {State: history.StateClosed, Closings: 1},
			}}, tc.violates)
		})
	}
}

// What was changed by an ID concerns both orders whose messages have it. An answer need not be
// true of the one that had come before.
func TestChangesConcernAllWithTheID(t *testing.T) {
	t.Parallel()
	const first, second = "o-1", "o-2"
	for name, tc := range map[string]struct {
		received int64 // when the second one is
		violates string
	}{
		"the other one had come before":       {1_500_000, ""},
		"the other one comes after it":        {3_000_000, "order o-2: wrong (cancelled, and does not come)"},
		"the other one never comes after all": {0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			events := []history.Event{
				{At: 1_000_000, Kind: history.Placed, Order: first},
				{At: 1_000_100, Kind: history.Publish, Order: first, NotBefore: 2_500_000},
				{At: 1_000_200, Kind: history.Published, Order: first},
				{At: 1_000_300, Kind: history.Placed, Order: second, ID: first},
				{At: 1_000_400, Kind: history.Publish, Order: second, NotBefore: 1_400_000},
				{At: 1_000_500, Kind: history.Published, Order: second},
				{At: 2_000_000, Kind: history.Cancel, Order: first},
				{At: 2_000_100, Kind: history.Cancelled, Order: first},
			}
			final := history.Final{Orders: map[string]history.OrderState{
				first: {State: history.StatePending}, second: {State: history.StatePending},
			}}
			if tc.received > 0 {
				events = append(events,
					history.Event{At: tc.received, Kind: history.Received, Order: second, Asked: tc.received, Intact: true},
					history.Event{At: tc.received + 1, Kind: history.Effect, Order: second, Detail: history.EffectClosed})
				final.Orders[second] = history.OrderState{State: history.StateClosed, Closings: 1}
			}
			wantOne(t, events, final, tc.violates)
		})
	}
}

// wantOne judges events, and wants one violation that begins with violates, or none.
func wantOne(t *testing.T, events []history.Event, final history.Final, violates string) *checker.Report {
	t.Helper()
	dir := t.TempDir()
	w, err := history.Create(filepath.Join(dir, "all.jsonl"), "all/1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	for _, e := range events {
		if err := w.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	events, err = history.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	report := checker.Check(events, final)
	var said []string
	for _, v := range report.Violations {
		said = append(said, v.String())
	}
	switch all := strings.Join(said, "\n"); {
	case violates == "" && all != "":
		t.Errorf("got %q, want no violation", all)
	case violates != "" && (len(said) != 1 || !strings.HasPrefix(all, violates)):
		t.Errorf("got %q, want one violation, %q", all, violates)
	}
	return report
}
