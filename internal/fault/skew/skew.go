// Package skew builds Go programs whose wall clock is wrong, to prove that
// delays do not depend on it.
//
// In such a program [time.Now] is off by the number of seconds in the
// environment variable [Variable], from the first call on. Everything that goes
// by the monotonic clock stays right: [time.Since] and [time.Until] of a time
// that Now has returned, timers, deadlines of contexts and connections. So does
// the clock of a testing/synctest bubble, and a library that asks the system by a call
// of his own.
package skew

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/delaybridge/delaybridge/internal/fault/overlay"
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
	folder, err := overlay.Go(ctx, "list", "-f", "{{.Dir}}", "time")
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
	return overlay.Build(ctx, importPath, output, map[string][]byte{
		original: changed,
		filepath.Join(filepath.Dir(original), "delaybridge_skew.go"): []byte(skewSource),
	})
}
