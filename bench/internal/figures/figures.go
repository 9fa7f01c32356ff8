// Package figures is what measurements come to: keys and values that are compared from run to
// run, in one flat JSON file, and the goals that they must reach. It has the medians and ratios
// that the values are made of, too.
package figures

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"text/tabwriter"
)

// Figures are the keys and values that are compared from run to run.
type Figures map[string]float64

// Write writes f as one flat JSON object.
func (f Figures) Write(file string) error {
	content, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(content, '\n'), 0o644)
}

// Read reads what [Figures.Write] has written. An error that is about the content names the file.
func Read(file string) (Figures, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var f Figures
	if err := json.Unmarshal(content, &f); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return f, nil
}

// Print compares f with the goals; what has no goal follows.
func (f Figures) Print(out io.Writer) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	rest := map[string]bool{}
	for key := range f {
		rest[key] = true
	}
	for _, g := range goals() {
		value, measured := f[g.key]
		if !measured {
			continue
		}
		delete(rest, g.key)
		missed := ""
		if !g.reached(value) {
			missed = "missed"
		}
		fmt.Fprintf(table, "%s\t%.4g\t%s %g\t%s\t%s\n", g.key, value, g.is, g.bound, missed, g.what)
	}
	for _, key := range slices.Sorted(maps.Keys(rest)) {
		fmt.Fprintf(table, "%s\t%.4g\n", key, f[key])
	}
	_ = table.Flush()
}
