package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/delaybridge/delaybridge/internal/usage"
)

// On a machine that others use, a load that they have disturbed says little.
// What counts is decided by their processor time alone, never by the result.
const (
	undisturbed = 0.05 // of the machine
	quietLook   = 3 * time.Second
)

// measure applies a load, again while it was disturbed and as often as the
// settings allow, and returns the least disturbed measurement.
func (c candidate) measure(ctx context.Context, s settings, load func(*trial, context.Context) (measured, error)) (*measured, error) {
	var (
		best   *measured
		failed []error
	)
	for range s.tries {
		if err := awaitQuiet(ctx, s.quiet); err != nil {
			return best, err
		}
		m, err := c.run(ctx, s, load)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		if best == nil || m.disturbed < best.disturbed {
			best = &m
		}
		if best.disturbed < undisturbed {
			break
		}
		fmt.Fprintf(os.Stderr, "compare: %s was disturbed: others used %.0f%% of the machine\n", c.name, m.disturbed*100)
	}
	if best == nil {
		return nil, errors.Join(failed...)
	}
	return best, nil
}

// awaitQuiet returns once no other program uses the machine, or has tried for most.
func awaitQuiet(ctx context.Context, most time.Duration) error {
	for began := time.Now(); time.Since(began) < most; {
		before, err := usage.ProcessorTime()
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(quietLook):
		}
		after, err := usage.ProcessorTime()
		if err != nil {
			return err
		}
		if share(usage.Since(before, after), quietLook) < undisturbed {
			return nil
		}
	}
	return nil
}

// share is how much of the machine others have used.
func share(processor map[string]float64, took time.Duration) float64 {
	return processor[usage.Others] / took.Seconds() / float64(runtime.NumCPU())
}
