// Package mutants breaks the product on purpose, one small change at a time, to show that
// the fault run would see it. A mutant that no rule finds is a hole in the rules, or in what
// the run does.
package mutants

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/delaybridge/delaybridge/internal/fault/overlay"
)

// Mutant is the product with one change.
type Mutant struct {
	Name string // what the product does wrong
	File string // by its path in the module
	// Old is what is changed, in one place of the file, and New what it becomes.
	Old, New string
	// Rule is the one that must find it (checker.Rules).
	Rule string
	// Only names the scenario that brings it to light; empty for the mixture of all.
	Only string
}

// Build builds the mutant of a program into the file output, and writes into dir what
// [overlay.Variable] has to name when that runs, whose path it returns. The module's files stay as
// they are.
func (m *Mutant) Build(ctx context.Context, importPath, output, dir string) (path string, err error) {
	root, err := overlay.Go(ctx, "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return "", err
	}
	files, err := m.files(string(bytes.TrimSpace(root)))
	if err != nil {
		return "", err
	}
	if path, err = overlay.Write(dir, files); err != nil {
		return "", err
	}
	return path, overlay.Build(ctx, importPath, output, files)
}

// files returns the mutant's file, by its path.
func (m *Mutant) files(root string) (map[string][]byte, error) {
	path := filepath.Join(root, m.File)
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	changed, err := m.Change(source)
	return map[string][]byte{path: changed}, err
}

// Change returns the mutant's file.
func (m *Mutant) Change(source []byte) ([]byte, error) {
	if n := bytes.Count(source, []byte(m.Old)); n != 1 {
		return nil, fmt.Errorf("mutant %q: %s has %d places like the one to change, want 1", m.Name, m.File, n)
	}
	return bytes.Replace(source, []byte(m.Old), []byte(m.New), 1), nil
}
