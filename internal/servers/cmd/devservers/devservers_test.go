package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// programVariable makes this test binary the program under test.
const programVariable = "DELAYBRIDGE_TEST_DEVSERVERS"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		os.Exit(execute(os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

// program runs devservers in dir and returns its standard output and exit code.
func program(t *testing.T, dir string, args ...string) (string, int) {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), executable, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), programVariable+"=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	t.Logf("devservers %s:\n%s", strings.Join(args, " "), stderr.String())
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return stdout.String(), cmd.ProcessState.ExitCode()
}

// inCheckout makes a folder below this one, so that compose.yaml is above it.
func inCheckout(t *testing.T) string {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(here, "_up-") // a name that the go command passes over
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestRunHandsAddressesAndExitCodeThrough(t *testing.T) {
	t.Parallel()
	const script = `echo "$DELAYBRIDGE_TEST_AMQP_URL $DELAYBRIDGE_TEST_MANAGEMENT_URL $DELAYBRIDGE_TEST_REDIS_URL ` +
		`$DELAYBRIDGE_TEST_POSTGRESQL_URL $DELAYBRIDGE_TEST_MARIADB_DSN"; exit 7`
	out, code := program(t, t.TempDir(), "run", "--databases", "--", "sh", "-c", script)
	if code != 7 {
		t.Errorf("exit code %d, want the command's 7", code)
	}
	schemes, fields := []string{"amqp://", "http://", "redis://", "postgres://", "root@tcp("}, strings.Fields(out)
	if len(fields) != len(schemes) {
		t.Fatalf("the command saw %q, want %d addresses", out, len(schemes))
	}
	for i, scheme := range schemes {
		if !strings.HasPrefix(fields[i], scheme) {
			t.Errorf("address %d is %q, want %s...", i, fields[i], scheme)
		}
	}
}

func TestUpAndDown(t *testing.T) {
	t.Parallel()
	dir := inCheckout(t)
	bridge, calls := filepath.Join(dir, "bridge"), filepath.Join(dir, "calls")
	script := `#!/bin/sh
echo "$* $DELAYBRIDGE_AMQP_URL" >>'` + calls + `'
[ "$1" = bridge ] || exit 0
trap 'echo drained >>"` + calls + `"; exit 0' TERM
while :; do sleep 0.1; done
`
	if err := os.WriteFile(bridge, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}

	first, code := program(t, dir, "up", "--bridge", bridge)
	if code != 0 {
		t.Fatalf("up: exit code %d", code)
	}
	lines := strings.Split(strings.TrimSpace(first), "\n")
	if len(lines) != 3 {
		t.Fatalf("up prints %q, want three exports", first)
	}
	for i, start := range []string{
		"export DELAYBRIDGE_AMQP_URL='amqp://", "export DELAYBRIDGE_MANAGEMENT_URL='http://", "export DELAYBRIDGE_REDIS_URL='redis://",
	} {
		if !strings.HasPrefix(lines[i], start) {
			t.Errorf("line %d is %q, want %s...", i, lines[i], start)
		}
	}
	if second, code := program(t, dir, "up", "--bridge", bridge); code != 0 || second != first {
		t.Errorf("a second up prints %q (exit code %d), want the same as the first", second, code)
	}
	if _, code := program(t, dir, "down"); code != 0 {
		t.Errorf("down: exit code %d", code)
	}

	_, url, _ := strings.Cut(strings.Trim(lines[0], "'"), "'")
	want := "topology apply " + url + "\nbridge " + url + "\ndrained\n"
	if got, err := os.ReadFile(calls); err != nil || string(got) != want {
		t.Errorf("the bridge saw %q (%v), want %q", got, err, want)
	}
	if _, err := os.Stat(filepath.Join(dir, stateDir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("down left its state folder (%v)", err)
	}
}

func TestDownIsHarmlessWhenNothingRuns(t *testing.T) {
	t.Parallel()
	if out, code := program(t, t.TempDir(), "down"); out != "" || code != 0 {
		t.Errorf("down prints %q, exit code %d, want nothing and 0", out, code)
	}
}
