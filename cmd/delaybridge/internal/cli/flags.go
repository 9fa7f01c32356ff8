package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
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

// DurationFlag adds a flag for a duration with a default.
func DurationFlag(flags *pflag.FlagSet, d *time.Duration, name string, value time.Duration, usage string) {
	*d = value
	flags.Var((*duration)(d), name, usage)
}

// NotNegative names the flags of a command that are given, and less than nothing.
func NotNegative(flags *pflag.FlagSet) error {
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

// ParseSince reads an instant, or how long ago it was; without text it is zero.
func ParseSince(text string, now time.Time) (time.Time, error) {
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

// ParseWhen reads a delay or an instant, at most one of which is given. The
// last two arguments are what the user knows them by.
func ParseWhen(in, at, inName, atName string) (message.When, error) {
	switch {
	case in != "" && at != "":
		return message.When{}, fmt.Errorf("%s and %s exclude each other: give a delay or an instant", inName, atName)
	case in != "":
		delay, err := wire.ParseDuration(in)
		if err != nil {
			return message.When{}, fmt.Errorf("%s: %w", inName, err)
		}
		return message.After(delay), nil
	case at != "":
		instant, err := wire.ParseInstant(at)
		if err != nil {
			return message.When{}, fmt.Errorf("%s: %w", atName, err)
		}
		return message.At(instant), nil
	}
	return message.When{}, nil
}
