package cli

import (
	"strings"
	"time"
)

// InstantFormat is how commands write instants, to the millisecond.
const InstantFormat = "2006-01-02T15:04:05.000Z07:00"

// InstantText writes an instant for a table, or a dash.
func InstantText(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(InstantFormat)
}

// OneLine is what an error says, without line breaks.
func OneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// Instant returns an instant for JSON, in UTC, and nil for the zero time.
func Instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
