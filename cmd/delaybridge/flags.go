package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/delaybridge/delaybridge/internal/wire"
)

// duration is the value of a flag, which is written as everywhere else: 1500ms, 30m, 7d.
type duration time.Duration

// Set implements [pflag.Value].
func (d *duration) Set(text string) error {
	parsed, err := wire.ParseDuration(text)
	*d = duration(parsed)
	return err
}

// String returns nothing for zero, so that help shows no default then.
func (d *duration) String() string { return wire.TTLName(time.Duration(*d)) }

// Type implements [pflag.Value].
func (d *duration) Type() string { return "duration" }

// durationFlag adds a flag for a duration with a default.
func durationFlag(flags *pflag.FlagSet, d *time.Duration, name string, value time.Duration, usage string) {
	*d = value
	flags.Var((*duration)(d), name, usage)
}

// inFlags is an error of a library, with the names of flags for those of its fields.
type inFlags struct {
	error
	names *strings.Replacer
}

// byFlags has err name flags. Pairs are what the library says, and what to say instead.
func byFlags(err error, pairs ...string) error {
	if err == nil {
		return nil
	}
	return inFlags{err, strings.NewReplacer(pairs...)}
}

func (e inFlags) Error() string { return e.names.Replace(e.error.Error()) }

func (e inFlags) Unwrap() error { return e.error }

// notNegative names the flags of a command that are given, and less than nothing.
func notNegative(flags *pflag.FlagSet) error {
	var faults []error
	flags.VisitAll(func(f *pflag.Flag) {
		d, isDuration := f.Value.(*duration)
		switch {
		case isDuration && *d < 0:
			faults = append(faults, fmt.Errorf("--%s %v: must not be negative", f.Name, time.Duration(*d)))
		case f.Value.Type() == "int" && strings.HasPrefix(f.Value.String(), "-"):
			faults = append(faults, fmt.Errorf("--%s %s: must not be negative", f.Name, f.Value))
		}
	})
	return errors.Join(faults...)
}

// parseSince reads an instant, or how long ago it was; without text it is zero.
func parseSince(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := wire.ParseDuration(text); err == nil {
		return now.Add(-ago), nil
	}
	instant, err := wire.ParseInstant(text)
	if err != nil {
		err = fmt.Errorf("%w; or a duration, such as 1h, for how long ago", err)
	}
	return instant, err
}
