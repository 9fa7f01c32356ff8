package lab

import (
	"fmt"
	"os"
	"slices"
)

// InTurns returns all, and reverses the order in every other round, so that a machine that gets
// slower or faster favours neither.
func InTurns[T any](all []T, round int) []T {
	all = slices.Clone(all)
	if round%2 == 1 {
		slices.Reverse(all)
	}
	return all
}

// Say tells on standard error how far a measurement is.
func Say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
}
