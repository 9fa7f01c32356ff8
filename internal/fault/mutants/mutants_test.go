package mutants_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/delaybridge/delaybridge/internal/fault"
	"github.com/delaybridge/delaybridge/internal/fault/history"
	"github.com/delaybridge/delaybridge/internal/fault/mutants"
)

// What a mutant changes is still there, and what is to find it exists. `make mutants` has
// each judged.
func TestMutantsFitTheProduct(t *testing.T) {
	t.Parallel()
	names, judged := map[string]bool{}, map[string]bool{}
	for _, m := range mutants.All() {
		source, err := os.ReadFile(filepath.Join("..", "..", "..", m.File))
		if err != nil {
			t.Error(err)
			continue
		}
		if changed, err := m.Change(source); err != nil {
			t.Error(err)
		} else if string(changed) == string(source) {
			t.Errorf("mutant %q changes nothing", m.Name)
		}
		if !slices.Contains(history.Rules(), m.Rule) {
			t.Errorf("mutant %q is to be found by a rule that there is not: %q", m.Name, m.Rule)
		}
		if m.Only != "" && !slices.Contains(fault.Scenarios(), m.Only) {
			t.Errorf("mutant %q wants a scenario that there is not: %q", m.Name, m.Only)
		}
		if names[m.Name] {
			t.Errorf("two mutants are called %q", m.Name)
		}
		names[m.Name], judged[m.Rule] = true, true
	}
	// No part of the product that could be broken alone writes causes down.
	judged["cause before effect"] = true
	for _, rule := range history.Rules() {
		if !judged[rule] {
			t.Errorf("the rule %q finds no mutant", rule)
		}
	}
}
