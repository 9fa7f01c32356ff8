package message_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/delaybridge/delaybridge/message"
)

func instant() time.Time { return time.Date(2030, 1, 2, 3, 4, 5, 678_000_000, time.UTC) }

func TestAfterRoundsUp(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]time.Duration{
		0: 0, 1: time.Millisecond, time.Millisecond: time.Millisecond, time.Millisecond + 1: 2 * time.Millisecond,
		-1: -time.Millisecond, -2500 * time.Microsecond: -2 * time.Millisecond, message.MaxDelay: message.MaxDelay,
	} {
		if got, ok := message.After(d).Relative(); got != want || !ok {
			t.Errorf("After(%v): got %v, %v; want %v", d, got, ok, want)
		}
	}
}

func TestAtRoundsUp(t *testing.T) {
	t.Parallel()
	for given, want := range map[time.Time]time.Time{
		instant():                       instant(),
		instant().Add(1):                instant().Add(time.Millisecond),
		instant().Add(time.Microsecond): instant().Add(time.Millisecond),
		time.Unix(0, -1):                time.Unix(0, 0),
		time.Unix(-1, 0):                time.Unix(-1, 0),
	} {
		if got, ok := message.At(given).Instant(); !got.Equal(want) || !ok {
			t.Errorf("At(%v): got %v, %v; want %v", given, got, ok, want)
		}
	}
}

// Never early: what is rounded is never before what was meant.
func TestFromIsNeverBefore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(0, rapid.Int64Range(0, 1<<62).Draw(t, "now"))
		d := time.Duration(rapid.Int64Range(0, int64(message.MaxDelay)).Draw(t, "delay"))
		at := now.Add(d)
		if got := message.After(d).From(now); got.Before(at) || got.Sub(at) >= time.Millisecond {
			t.Errorf("After(%v).From(%v) = %v", d, now, got)
		}
		if got := message.At(at).From(now); got.Before(at) || got.Sub(at) >= time.Millisecond {
			t.Errorf("At(%v).From = %v", at, got)
		}
	})
}

func TestWhenIsOneOrTheOther(t *testing.T) {
	t.Parallel()
	if _, ok := message.After(time.Second).Instant(); ok {
		t.Error("After is an instant")
	}
	if _, ok := message.At(instant()).Relative(); ok {
		t.Error("At is a delay")
	}
	if d, ok := (message.When{}).Relative(); d != 0 || !ok {
		t.Errorf("the zero value: got %v, %v; want a delay of 0", d, ok)
	}
}

func TestValidateWhen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		w    message.When
		want string
	}{
		"at once":              {message.When{}, ""},
		"longest":              {message.After(message.MaxDelay), ""},
		"negative":             {message.After(-time.Second), "delay -1s is negative: use 0"},
		"negative by a hair":   {message.After(-1), "negative"},
		"too long":             {message.After(message.MaxDelay + 1), "is longer than the longest"},
		"in the past":          {message.At(time.Unix(0, 0)), ""},
		"farthest":             {message.At(instant().Add(message.MaxDelay)), ""},
		"too far":              {message.At(instant().Add(message.MaxDelay + time.Millisecond)), "2039-12-31T03:04:05Z is further away"},
		"beyond all calendars": {message.At(time.Date(200000, 1, 1, 0, 0, 0, 0, time.UTC)), "is further away"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := c.w.Validate(instant())
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
