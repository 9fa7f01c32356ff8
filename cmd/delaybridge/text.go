package main

import (
	"strings"
	"time"
)

const instantFormat = "2006-01-02T15:04:05.000Z07:00"

// instantText writes an instant for a table, or a dash.
func instantText(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(instantFormat)
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
