package message

import (
	"fmt"
	"time"
)

// MaxDelay is the longest delay: ten years of 365 days.
const MaxDelay = 10 * 365 * 24 * time.Hour

// When says when a message is to be delivered: after a delay, at an instant,
// or, as the zero value, at once. Make one with [After] or [At].
//
// A relative When is measured by a server's clock, in whole milliseconds, from the
// moment the server has the message, or up to half a second earlier, when it was
// published; so a publisher whose clock is wrong delivers on time.
type When struct {
	absolute bool
	ms       int64 // a delay, or Unix time
}

// After is d from now, rounded up to whole milliseconds.
func After(d time.Duration) When {
	ms := d.Milliseconds()
	if d > 0 && d%time.Millisecond != 0 {
		ms++
	}
	if d < 0 {
		ms = min(ms, -1)
	}
	return When{ms: ms}
}

// At is the instant t, rounded up to whole milliseconds. An instant in the past
// means at once.
func At(t time.Time) When {
	ms := t.UnixMilli()
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		ms++
	}
	return When{absolute: true, ms: ms}
}

// Relative returns the delay, and false if w is an instant.
func (w When) Relative() (time.Duration, bool) {
	return time.Duration(w.ms) * time.Millisecond, !w.absolute
}

// Instant returns the instant, and false if w is a delay.
func (w When) Instant() (time.Time, bool) {
	return time.UnixMilli(w.ms), w.absolute
}

// From returns the due instant of a message that was published at now.
func (w When) From(now time.Time) time.Time {
	if w.absolute {
		return time.UnixMilli(w.ms)
	}
	return now.Add(time.Duration(w.ms) * time.Millisecond)
}

// Validate rejects a negative delay and one of more than MaxDelay. An instant
// is judged by now, the caller's clock, which needs to be right to the year.
func (w When) Validate(now time.Time) error {
	switch {
	case !w.absolute && w.ms < 0:
		return fmt.Errorf("message: delay %v is negative: use 0 for at once", time.Duration(w.ms)*time.Millisecond)
	case !w.absolute && w.ms > MaxDelay.Milliseconds():
		return fmt.Errorf("message: delay %v is longer than the longest, %v (10 years)", time.Duration(w.ms)*time.Millisecond, MaxDelay)
	case w.absolute && w.ms-now.UnixMilli() > MaxDelay.Milliseconds():
		return fmt.Errorf("message: %s is further away than the longest delay, %v (10 years)", time.UnixMilli(w.ms).UTC().Format(time.RFC3339), MaxDelay)
	}
	return nil
}
