package fault_test

import (
	"testing"

	"github.com/delaybridge/delaybridge/internal/fault"
)

// Every scenario at least once, three at a time, on a single node and on a
// cluster. `make fault` is the long form.
func TestNoPromiseIsBroken(t *testing.T) {
	t.Parallel()
	c := fault.Config{Seed: 3, Each: true, Progress: t.Output()}
	result, err := fault.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range fault.Scenarios() {
		if result.Injected[name] == 0 {
			t.Errorf("%q was never injected", name)
		}
	}
	if code := result.Print(t.Output(), t.Output(), c); code != 0 {
		t.Errorf("%d violations, and %d things that nobody asked for", len(result.Violations), len(result.Surprises))
	}
}
