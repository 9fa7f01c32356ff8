package mutants_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/internal/fault/checker"
	"github.com/delaybridge/delaybridge/internal/fault/mutants"
	"github.com/delaybridge/delaybridge/internal/fault/scenarios"
)

// docs/reliability.md lists the mutants, and what found each.
func TestMutantsAreListed(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "reliability.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants.All() {
		if row := fmt.Sprintf("\n| %s | %s |\n", m.Name, m.Rule); !strings.Contains(string(text), row) {
			t.Errorf("docs/reliability.md lacks the line%s", row)
		}
	}
}

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
		if !slices.Contains(checker.Rules(), m.Rule) {
			t.Errorf("mutant %q is to be found by a rule that there is not: %q", m.Name, m.Rule)
		}
		if m.Only != "" && !slices.Contains(scenarios.Names(), m.Only) {
			t.Errorf("mutant %q wants a scenario that there is not: %q", m.Name, m.Only)
		}
		if names[m.Name] {
			t.Errorf("two mutants are called %q", m.Name)
		}
		names[m.Name], judged[m.Rule] = true, true
	}
	// No part of the product that could be broken alone writes causes down.
	judged["cause before effect"] = true
	for _, rule := range checker.Rules() {
		if !judged[rule] {
			t.Errorf("the rule %q finds no mutant", rule)
		}
	}
}
