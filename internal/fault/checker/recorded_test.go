package checker_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/delaybridge/delaybridge/internal/fault/checker"
	"github.com/delaybridge/delaybridge/internal/fault/history"
)

// Histories of runs over which the rules once decided otherwise.
//
// Repetitions: the same four orders with a release that parked a repetition from the inbox beside the first
// message, and with one that knows it. Each is published twice with a delay, three of them are then
// cancelled, and one is rescheduled to earlier.
//
// Refused by one queue: a full one, so that the customer publishes again and again, and copies come to
// the other one.
func TestRecordedHistories(t *testing.T) {
	t.Parallel()
	for dir, want := range map[string][]string{
		"testdata/repeated-good":        nil,
		"testdata/refused-by-one-queue": nil,
		"testdata/repeated-bad":         {"wrong o-000012", "wrong o-000445", "wrong o-000691", "wrong o-000722"},
	} {
		events, err := history.Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		final, err := history.ReadFinal(dir)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, v := range checker.Check(events, *final).Violations {
			got = append(got, fmt.Sprintf("%s %s", v.Kind, v.Order))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: found %q, want %q", dir, got, want)
		}
	}
}
