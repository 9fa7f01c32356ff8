package quarantine

import (
	"slices"
	"strings"
	"time"
)

// Filter chooses messages: those to which everything applies that is set. The zero
// value chooses all.
type Filter struct {
	IDs      []string // any of them
	Entry    *string  // to which they were published; nil is any
	IDPrefix string
	Key      string    // the routing key
	Queue    string    // from which it comes
	Error    string    // is part of the error
	Since    time.Time // in quarantine since then, or later; not where that is unknown
	Until    time.Time // in quarantine before then, likewise
}

// Empty reports whether f chooses all.
func (f *Filter) Empty() bool {
	return len(f.IDs) == 0 && f.Entry == nil && f.IDPrefix == "" && f.Key == "" && f.Queue == "" && f.Error == "" && f.Since.IsZero() && f.Until.IsZero()
}

// Matches reports whether f chooses m.
func (f *Filter) Matches(m *Message) bool {
	return (len(f.IDs) == 0 || slices.Contains(f.IDs, m.ID)) &&
		(f.Entry == nil || m.Entry == *f.Entry) &&
		strings.HasPrefix(m.ID, f.IDPrefix) &&
		(f.Key == "" || m.RoutingKey == f.Key) &&
		(f.Queue == "" || m.Journey.Queue == f.Queue) &&
		strings.Contains(m.Error, f.Error) &&
		(f.Since.IsZero() || !m.Since.IsZero() && !m.Since.Before(f.Since)) &&
		(f.Until.IsZero() || !m.Since.IsZero() && m.Since.Before(f.Until))
}
