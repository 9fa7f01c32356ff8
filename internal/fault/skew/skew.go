// Package skew builds Go programs whose wall clock is wrong, to prove that
// delays do not depend on it.
//
// In such a program [time.Now] is off by the number of seconds in the
// environment variable [Variable], from the first call on. Everything that goes
// by the monotonic clock stays right: [time.Since] and [time.Until] of a time
// that Now has returned, timers, deadlines of contexts and connections. So does
// the clock of a testing/synctest bubble, and whoever asks the system by a call
// of his own.
package skew

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Variable is the environment variable that says by how many whole seconds the
// wall clock is ahead, or behind if negative. Unset or empty means not at all; a
// program that cannot read it panics at once.
const Variable = "DELAYBRIDGE_FAULT_CLOCK_SKEW"

// Build builds the main package importPath into the file output, without the
// race detector. The package is resolved in the current folder's module. The
// error says so if the installed Go has another time.Now than the one that Build
// knows how to change, and carries what the compiler had to say. The first build
// compiles everything above package time anew, which takes a minute or so; later
// ones find that in Go's build cache.
func Build(ctx context.Context, importPath, output string) error {
	// Asked of the go command, since the overlay must name files as it does.
	folder, err := command(ctx, "list", "-f", "{{.Dir}}", "time")
	if err != nil {
		return err
	}
	original := filepath.Join(string(bytes.TrimSpace(folder)), "time.go")
	source, err := os.ReadFile(original)
	if err != nil {
		return err
	}
	changed, err := shift(source)
	if err != nil {
		return fmt.Errorf("%s: %w", original, err)
	}
	dir, err := os.MkdirTemp("", "delaybridge-skew-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := writeOverlay(dir, map[string][]byte{
		original: changed,
		filepath.Join(filepath.Dir(original), "delaybridge_skew.go"): []byte(skewSource),
	})
	if err != nil {
		return err
	}
	_, err = command(ctx, "build", "-race=false", "-overlay", overlay, "-o", output, importPath)
	return err
}

// writeOverlay keeps files, named as the compiler is to see them, in dir, and
// returns the path of the overlay that leads there.
func writeOverlay(dir string, files map[string][]byte) (string, error) {
	var overlay struct{ Replace map[string]string }
	overlay.Replace = map[string]string{}
	for name, content := range files {
		overlay.Replace[name] = filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(overlay.Replace[name], content, 0o600); err != nil {
			return "", err
		}
	}
	content, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, content, 0o600)
}

func command(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", args[0], err, stderr.Bytes())
	}
	return out, nil
}
