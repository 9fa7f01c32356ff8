package doctor_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/internal/doctor"
)

// Every finding has an entry in the runbook under its code, and every entry a finding.
func TestRunbookHasEachFinding(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/findings.md")
	if err != nil {
		t.Fatal(err)
	}
	var entries []string
	for i, entry := range strings.Split(string(text), "\n## ") {
		if i == 0 {
			continue
		}
		code, body, _ := strings.Cut(entry, "\n")
		if len(strings.Fields(body)) < 8 {
			t.Errorf("the entry of %s says nothing", code)
		}
		entries = append(entries, code)
	}
	for _, code := range doctor.Codes() {
		if !slices.Contains(entries, code) {
			t.Errorf("docs/findings.md has no entry for %s", code)
		}
	}
	for i, code := range entries {
		if !slices.Contains(doctor.Codes(), code) || slices.Contains(entries[:i], code) {
			t.Errorf("docs/findings.md has an entry for %s, which is no finding, or has two", code)
		}
	}
}
