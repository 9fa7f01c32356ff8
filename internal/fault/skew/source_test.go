package skew_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/internal/fault/skew"
)

// Another time.Now than the expected one must not pass unchanged.
func TestShiftRefusesSourceItDoesNotKnow(t *testing.T) {
	t.Parallel()
	goroot, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(goroot)), "src", "time", "time.go"))
	if err != nil {
		t.Fatal(err)
	}
	source := string(content)
	if changed, err := skew.Shift(content); err != nil || string(changed) == source {
		t.Errorf("error %v, or nothing changed", err)
	}
	for name, other := range map[string]string{
		"empty":   "",
		"changed": strings.Replace(source, "mono -= startNano", "mono -= start()", 1),
		"twice":   source + source,
	} {
		if _, err := skew.Shift([]byte(other)); err == nil || !strings.Contains(err.Error(), "time.Now") {
			t.Errorf("%s: error %v, want one about time.Now", name, err)
		}
	}
}
