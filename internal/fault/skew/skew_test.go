package skew_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/internal/fault/skew"
)

const clockPackage = "github.com/delaybridge/delaybridge/internal/fault/skew/testdata/clock"

// reading is what the command in testdata/clock prints.
type reading struct {
	Wall                   int64
	Timer, Deadline, Until time.Duration
}

func TestOnlyTheWallClockIsWrong(t *testing.T) {
	t.Parallel()
	clock := filepath.Join(t.TempDir(), "clock")
	began := time.Now()
	if err := skew.Build(t.Context(), clockPackage, clock); err != nil {
		t.Fatal(err)
	}
	t.Logf("built in %v", time.Since(began))

	for name, seconds := range map[string]int64{"": 0, "0": 0, "300": 300, "+300": 300, "-300": -300} {
		t.Run("by "+name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), clock)
			cmd.Env = append(os.Environ(), skew.Variable+"="+name)
			before := time.Now()
			out, err := cmd.Output()
			after := time.Now()
			if err != nil {
				t.Fatal(err)
			}
			var r reading
			if err := json.Unmarshal(out, &r); err != nil {
				t.Fatalf("%s: %v", out, err)
			}
			if wall := r.Wall - 1000*seconds; wall < before.UnixMilli() || wall > after.UnixMilli() {
				t.Errorf("the clock says %d; without its skew it is not between %d and %d", r.Wall, before.UnixMilli(), after.UnixMilli())
			}
			// What was waited for is part of the time that the process took.
			const wait = 50 * time.Millisecond
			if took := after.Sub(before); r.Timer < wait || r.Deadline < wait || r.Timer+r.Deadline > took {
				t.Errorf("timer %v, deadline %v, of %v in all; want at least %v each", r.Timer, r.Deadline, took, wait)
			}
			if r.Until > time.Hour || r.Until < time.Hour-time.Minute {
				t.Errorf("until an hour from now it is %v", r.Until)
			}
		})
	}

	t.Run("unreadable", func(t *testing.T) {
		t.Parallel()
		cmd := exec.CommandContext(t.Context(), clock)
		cmd.Env = append(os.Environ(), skew.Variable+"=5m")
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), skew.Variable+": not a number of seconds: 5m") {
			t.Errorf("error %v, output %s; want a panic that names the value", err, out)
		}
	})
}

func TestBuildSaysWhatTheCompilerSaid(t *testing.T) {
	t.Parallel()
	output := filepath.Join(t.TempDir(), "none")
	err := skew.Build(t.Context(), clockPackage+"/none", output)
	if err == nil || !strings.Contains(err.Error(), "testdata/clock/none") {
		t.Errorf("error %v, want one that names the package", err)
	}
}
