package migration_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/internal/migration"
)

// began is when the first look was taken.
var began = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant in all but the language's eyes

// unknown stands for a number that the broker does not tell.
const unknown = -1

// seen is a look at one exchange, so long after the first.
type seen struct {
	after              time.Duration
	delayed, published int64
}

func known(n int64) *int64 {
	if n == unknown {
		return nil
	}
	return &n
}

// status is what the looks show, one after the other.
func status(h *migration.History, looks ...seen) migration.Status {
	for _, s := range looks {
		h.Add(migration.Look{
			At:        began.Add(s.after),
			Exchanges: []migration.Sample{{Exchange: "orders", Type: "direct", Delayed: known(s.delayed), Published: known(s.published)}},
		})
	}
	return h.Status()
}

func TestProgress(t *testing.T) {
	t.Parallel()
	const sec, min, hour = time.Second, time.Minute, time.Hour
	after := func(d time.Duration) *time.Time { at := began.Add(d); return &at }
	none := math.NaN() // no rate
	for _, test := range []struct {
		name    string
		longest time.Duration
		looks   []seen
		state   string
		falls   float64
		in      float64
		emptyAt *time.Time
		emptyBy *time.Time
		silent  *time.Time
		rests   string // a part of it
	}{
		{
			name: "one look says nothing of rates", looks: []seen{{0, 5, 100}},
			state: migration.StateWatching, falls: none, in: none, silent: after(0), emptyBy: after(migration.LongestDelay),
		},
		{
			name: "published", longest: hour, looks: []seen{{0, 5, 100}, {5 * sec, 7, 110}, {10 * sec, 9, 120}},
			state: migration.StatePublished, falls: -0.4, in: 2, rests: "nothing: messages still come in",
		},
		{
			name: "published, though more come out", longest: hour, looks: []seen{{0, 50, 100}, {5 * sec, 40, 110}, {10 * sec, 30, 120}},
			state: migration.StatePublished, falls: 2, in: 2, rests: "nothing: messages still come in",
		},
		{
			name: "what is held grows, though nothing is counted: dead letters", looks: []seen{{0, 5, 100}, {5 * sec, 6, 100}},
			state: migration.StatePublished, falls: -0.2, in: 0, rests: "nothing",
		},
		{
			name: "silent, but not for long enough", longest: hour, looks: []seen{{0, 5, 100}, {5 * sec, 5, 100}, {14 * sec, 5, 100}},
			state: migration.StateWatching, falls: 0, in: 0, silent: after(0), emptyBy: after(hour),
		},
		{
			name: "holds, and falls", longest: hour, looks: []seen{{0, 50, 100}, {10 * sec, 40, 100}, {20 * sec, 30, 100}},
			state: migration.StateHolds, falls: 1, in: 0, silent: after(0), emptyAt: after(50 * sec), emptyBy: after(hour), rests: "a fall of 1 a second",
		},
		{
			name: "the fall counts since nobody publishes", longest: hour,
			looks: []seen{{0, 1000, 100}, {10 * sec, 110, 110}, {20 * sec, 100, 110}, {30 * sec, 90, 110}},
			state: migration.StateHolds, falls: 1, in: 0, silent: after(10 * sec), emptyAt: after(120 * sec), emptyBy: after(hour + 10*sec),
		},
		{
			name: "the longest delay ends before the fall would", longest: min, looks: []seen{{0, 1000, 100}, {20 * sec, 999, 100}},
			state: migration.StateHolds, falls: 0.05, in: 0, silent: after(0), emptyAt: after(min), emptyBy: after(min), rests: "that was given (1m0s)",
		},
		{
			name: "it does not fall, and no longest delay is given", looks: []seen{{0, 5, 100}, {20 * sec, 5, 100}},
			state: migration.StateHolds, falls: 0, in: 0, silent: after(0), emptyBy: after(migration.LongestDelay), rests: "that the plugin knows",
		},
		{
			name: "there are longer delays than was said", longest: 10 * sec, looks: []seen{{0, 5, 100}, {20 * sec, 5, 100}},
			state: migration.StateHolds, falls: 0, in: 0, silent: after(0), rests: "nothing, since not on the longest delay that was given (10s), which is over",
		},
		{
			name: "there are longer delays than was said, and it falls", longest: 10 * sec, looks: []seen{{0, 60, 100}, {20 * sec, 40, 100}},
			state: migration.StateHolds, falls: 1, in: 0, silent: after(0), emptyAt: after(60 * sec), rests: "a fall of 1 a second since nobody publishes, which need not go on, and not on the longest delay",
		},
		{
			name: "a fall too slow to tell anything", longest: 10 * sec, looks: []seen{{0, math.MaxInt64 / 2, 100}, {20 * sec, math.MaxInt64/2 - 1e12, 100}},
			state: migration.StateHolds, falls: 5e10, in: 0, silent: after(0), rests: "nothing, since not on the longest delay that was given (10s), which is over",
		},
		{
			name: "empty", looks: []seen{{0, 5, 100}, {10 * sec, 0, 100}, {20 * sec, 0, 100}},
			state: migration.StateEmpty, falls: 0.25, in: 0, silent: after(0),
		},
		{
			name: "empty, but published to: without a delay", looks: []seen{{0, 0, 100}, {10 * sec, 0, 101}, {20 * sec, 0, 101}},
			state: migration.StatePublished, falls: 0, in: 0.05, rests: "nothing: messages still come in",
		},
		{
			name: "a node has restarted: who has published meanwhile is not known", looks: []seen{{0, 0, 100}, {10 * sec, 0, 3}, {20 * sec, 0, 3}},
			state: migration.StateWatching, falls: 0, in: none, silent: after(10 * sec),
		},
		{
			name: "a node has restarted, and what was seen before does not count", looks: []seen{{0, 0, 100}, {5 * sec, 0, 110}, {10 * sec, 0, 3}},
			state: migration.StateWatching, falls: 0, in: none, silent: after(10 * sec),
		},
		{
			name: "the broker counts nothing", looks: []seen{{0, 0, unknown}, {20 * sec, 0, unknown}},
			state: migration.StateUnknown, falls: 0, in: none,
		},
		{
			name: "the broker does not tell what is held", looks: []seen{{0, unknown, 100}, {20 * sec, unknown, 100}},
			state: migration.StateUnknown, falls: none, in: 0, silent: after(0),
		},
		{
			name: "only ten minutes are looked back", longest: 10 * hour,
			looks: []seen{{0, 10000, 100}, {hour, 700, 100}, {hour + 5*min, 400, 100}, {hour + 10*min, 100, 100}},
			state: migration.StateHolds, falls: 1, in: 0, silent: after(0), emptyAt: after(hour + 10*min + 100*sec), emptyBy: after(10 * hour),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := status(&migration.History{SilentFor: 15 * sec, LongestDelay: test.longest}, test.looks...)
			if len(s.Exchanges) != 1 || s.Done != (test.state == migration.StateEmpty) {
				t.Fatalf("%+v", s)
			}
			p := s.Exchanges[0]
			if p.State != test.state {
				t.Errorf("state %s, want %s", p.State, test.state)
			}
			for name, pair := range map[string][2]float64{"falls": {rateOf(p.Falls), test.falls}, "in": {rateOf(p.In), test.in}} {
				if got, want := pair[0], pair[1]; math.IsNaN(got) != math.IsNaN(want) || math.Abs(got-want) > 1e-6 {
					t.Errorf("%s %v, want %v", name, got, want)
				}
			}
			for name, pair := range map[string][2]*time.Time{
				"empty at": {p.EmptyAt, test.emptyAt}, "empty by": {p.EmptyBy, test.emptyBy}, "silent since": {p.SilentSince, test.silent},
			} {
				if got, want := pair[0], pair[1]; (got == nil) != (want == nil) || got != nil && !got.Equal(*want) {
					t.Errorf("%s %v, want %v", name, got, want)
				}
			}
			if !strings.Contains(p.RestsOn, test.rests) || p.EmptyAt != nil && p.RestsOn == "" {
				t.Errorf("it rests on %q, want %q", p.RestsOn, test.rests)
			}
		})
	}
}

func rateOf(rate *float64) float64 {
	if rate == nil {
		return math.NaN()
	}
	return *rate
}

// What a node holds that was not asked is not known, so nothing is empty.
func TestNothingIsEmptyWhileANodeWasNotAsked(t *testing.T) {
	t.Parallel()
	none, h := int64(0), migration.History{SilentFor: 15 * time.Second}
	for _, after := range []time.Duration{0, time.Minute} {
		h.Add(migration.Look{
			At: began.Add(after), Nodes: []string{"rabbit@a"}, NotAsked: []string{"rabbit@b"},
			Exchanges: []migration.Sample{{Exchange: "orders", Delayed: &none, Published: &none}},
		})
	}
	s := h.Status()
	if s.Done || s.Exchanges[0].State != migration.StateUnknown || len(s.Unknown) != 1 || !strings.Contains(s.Unknown[0], "rabbit@b") {
		t.Errorf("%+v", s)
	}
}

// An exchange that was deleted meanwhile is not waited for.
func TestDeletedExchangeIsNoLongerWaitedFor(t *testing.T) {
	t.Parallel()
	h := &migration.History{SilentFor: 15 * time.Second}
	if s := status(h, seen{0, 5, 100}); s.Done {
		t.Fatalf("%+v", s)
	}
	h.Add(migration.Look{At: began.Add(time.Minute)})
	if s := h.Status(); !s.Done || len(s.Exchanges) != 0 {
		t.Errorf("%+v", s)
	}
}
