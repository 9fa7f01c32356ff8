package promote_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/delaybridge/delaybridge/redisbridge/internal/promote"
)

// Whatever the tiers, the delay and how late the claim is: a message is never
// sent where it could come out early, and a postponed one is never lost sight of.
func TestPlanIsNeverEarly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		millis := rapid.SliceOfNDistinct(rapid.Int64Range(1, 120_000), 1, 6, rapid.ID).Draw(t, "leads")
		slices.Sort(millis)
		var leads []time.Duration
		for _, ms := range millis {
			leads = append(leads, time.Duration(ms)*time.Millisecond)
		}
		due := rapid.Int64Range(1_000_000_000_000, 2_000_000_000_000).Draw(t, "due")
		promoteAt := due - rapid.OneOf(rapid.Just(int64(0)), rapid.SampledFrom(millis), rapid.Int64Range(0, 200_000)).Draw(t, "planned lead")
		now := promoteAt + rapid.Int64Range(0, 300_000).Draw(t, "late")

		p := promote.PlanFor(leads, due, promoteAt, now)
		switch {
		case p.Postponed() > 0:
			if p.Postponed() < now || p.Postponed() > due {
				t.Fatalf("postponed to %d, not between now %d and due %d", p.Postponed(), now, due)
			}
			if lead := due - p.Postponed(); lead > promote.AheadMS && !slices.Contains(millis, lead) {
				t.Fatalf("postponed to %d ms before due, where there is no lane", lead)
			}
		case p.Lane() > 0:
			if p.Left() != due-now || p.Left() > p.Lane() || !slices.Contains(millis, p.Lane()) {
				t.Fatalf("lane %d for the last %d of %d ms", p.Lane(), p.Left(), due-now)
			}
			if p.Lane() != due-promoteAt {
				t.Fatalf("lane %d is not the one it was meant for, %d", p.Lane(), due-promoteAt)
			}
		default:
			if p.Left() < due-now || p.Left() > promote.AheadMS {
				t.Fatalf("sent to the ready exchange in %d ms, due in %d", p.Left(), due-now)
			}
		}
	})
}
