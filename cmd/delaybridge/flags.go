package main

import (
	"fmt"
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
