package wiretest

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Rows returns the first cell of each row of the tables below a heading of a
// Markdown file, up to the next heading.
func Rows(t testing.TB, file, heading string) []string {
	t.Helper()
	text, err := os.ReadFile(file) //nolint:gosec // the test names it
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no heading %q", file, heading)
	}
	var rows []string
	cells := 0 // lines of the table so far: its first two are no rows
	for line := range strings.Lines(section) {
		switch {
		case strings.HasPrefix(line, "#"):
			return rows
		case !strings.HasPrefix(line, "|"):
			cells = 0
		default:
			if cells++; cells > 2 {
				rows = append(rows, strings.TrimSpace(strings.Split(line, "|")[1]))
			}
		}
	}
	return rows
}

// SameRows fails the test over a row that no test has, and over a test that has
// no row.
func SameRows(t testing.TB, file, heading string, tested []string) {
	t.Helper()
	written := Rows(t, file, heading)
	for _, row := range written {
		if !slices.Contains(tested, row) {
			t.Errorf("%s, %q: no test has the row %q", file, heading, row)
		}
	}
	for _, row := range slices.Compact(slices.Sorted(slices.Values(tested))) {
		if n := count(written, row); n != 1 {
			t.Errorf("%s, %q: has %d rows %q, want 1", file, heading, n, row)
		}
	}
}

func count(all []string, one string) (n int) {
	for _, s := range all {
		if s == one {
			n++
		}
	}
	return n
}
