package checker

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/delaybridge/delaybridge/internal/fault/history"
)

// retriedEarly objects to a further attempt before the instant that the handler has
// asked for.
func (r *record) retriedEarly() (why []string) {
	for _, e := range r.received {
		if e.Attempt == 0 {
			continue
		}
		// The same attempt may have failed more than once, in consumers that were killed.
		least := int64(math.MaxInt64)
		for _, f := range r.failed {
			if f.Attempt == e.Attempt-1 && f.At <= e.At {
				least = min(least, f.NotBefore)
			}
		}
		if least != math.MaxInt64 && e.At < least-r.wrongClock() {
			why = append(why, fmt.Sprintf("tried again by %s %v before the handler wanted it", e.Who, micros(least-e.At)))
		}
	}
	return why
}

// wrongAttempts objects to an attempt that does not follow from a failed one, and
// to an effect of what was rejected.
func (r *record) wrongAttempts() (why []string) {
	for _, e := range r.received {
		follows := e.Attempt == 0
		for _, f := range r.failed {
			follows = follows || f.Attempt == e.Attempt-1 && f.At <= e.At
		}
		if !follows {
			why = append(why, fmt.Sprintf("%s received it for attempt %d, and none before that has failed", e.Who, e.Attempt+1))
		}
	}
	if len(r.rejected) > 0 && len(r.effects) > 0 {
		why = append(why, "rejected, and had an effect")
	}
	return why
}

// lostRejected objects to a rejected message that is not in quarantine. One that was cancelled
// there is dropped once it is replayed.
func (r *record) lostRejected() (why []string) {
	if len(r.rejected) == 0 {
		return nil
	}
	last := r.rejected[len(r.rejected)-1].At
	if slices.ContainsFunc(r.dropped, func(e history.Event) bool { return e.At > last && e.Detail == history.DroppedCancelled }) {
		return nil
	}
	for _, l := range r.left {
		if l.Quarantined() {
			return nil
		}
	}
	return []string{"rejected, and not in quarantine"}
}

// belongs says whether a message in quarantine is there because a handler has
// rejected it, and says so.
func (r *record) belongs(l history.Left) bool {
	for _, e := range r.rejected {
		if e.Detail != "" && strings.Contains(l.Reason, e.Detail) {
			return true
		}
	}
	return false
}
