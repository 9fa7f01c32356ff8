package fault_test

import (
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/internal/fault"
)

// A minute of what `make fault` does. The continuous integration does two, without the race detector.
func TestNoPromiseIsBroken(t *testing.T) {
	t.Parallel()
	c := fault.Config{Duration: time.Minute, Seed: 3, Progress: t.Output()}
	result, err := fault.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if code := result.Print(t.Output(), t.Output(), c); code != 0 {
		t.Errorf("%d violations, and %d things that nobody asked for", len(result.Violations), len(result.Surprises))
	}
}
