package fault

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/internal/fault/scenarios"
)

// The same seed deals the same scenarios, each once before any comes again.
func TestSeedDecides(t *testing.T) {
	t.Parallel()
	deal := func(seed uint64) (names []string, draws []uint64) {
		d := dealer{deck: scenarios.All(), seed: seed}
		for range 2 * len(scenarios.All()) {
			var rng *rand.Rand
			s, rng := d.deal()
			names, draws = append(names, s.Name), append(draws, rng.Uint64())
		}
		return names, draws
	}
	names, draws := deal(7)
	again, sameDraws := deal(7)
	if !slices.Equal(names, again) || !slices.Equal(draws, sameDraws) {
		t.Error("the same seed deals something else")
	}
	if other, _ := deal(8); slices.Equal(names, other) {
		t.Error("another seed deals the same")
	}
	for _, half := range [][]string{names[:len(names)/2], names[len(names)/2:]} {
		half = slices.Sorted(slices.Values(half))
		if all := slices.Sorted(slices.Values(scenarios.Names())); !slices.Equal(half, all) {
			t.Errorf("dealt %v, want each scenario once", half)
		}
	}
}

func TestTimeIsDivided(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		c           Config
		parts, acts int // acts of the first part
	}{
		{Config{Duration: 40 * time.Second}, 1, 1},
		{Config{Duration: time.Minute}, 1, 2},
		{Config{Duration: 10 * time.Minute}, 2, len(scenarios.All()) - len(ofClusters()) - 3 + 2}, // three take minutes
		{Config{Duration: 20 * time.Minute}, 2, len(scenarios.All()) - len(ofClusters()) + 2},
		{Config{Duration: time.Minute, Only: "node down"}, 1, 1},
		{Config{Duration: time.Minute, Only: "redis full"}, 1, 1},
	} {
		parts := tc.c.parts()
		acts := tc.c.acts(parts[0])
		if len(parts) != tc.parts || len(acts) != tc.acts {
			t.Errorf("%+v: %d parts and %d acts, want %d and %d", tc.c, len(parts), len(acts), tc.parts, tc.acts)
		}
		var sum time.Duration
		for _, p := range parts {
			for _, a := range tc.c.acts(p) {
				sum += a.duration
				if (len(a.deck) == 0 || a.hands == 0) && a.name != calmAct {
					t.Errorf("%+v: act %q injects nothing", tc.c, a.name)
				}
			}
		}
		if sum != tc.c.Duration {
			t.Errorf("%+v: the acts take %v", tc.c, sum)
		}
	}
}
