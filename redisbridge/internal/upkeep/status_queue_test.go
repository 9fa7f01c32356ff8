package upkeep

import (
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/redisbridge/internal/store"
)

func TestWhatIsShown(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for want, shards := range map[string][]store.Overview{
		"0 parked in Redis, nothing due": nil,
		"1,234,567 parked in Redis, next due 2026-11-22T12:30:00Z": {
			{Parked: map[time.Duration]int{0: 1, time.Minute: 1_234_000}, NextDue: now.Add(time.Hour)},
			{Parked: map[time.Duration]int{time.Minute: 566}, NextDue: now.Add(30 * time.Minute), OldestLate: now.Add(-time.Second)},
		},
		"999 parked in Redis, nothing due, late since 2026-11-22T11:59:00Z": {
			{Parked: map[time.Duration]int{time.Second: 999}, OldestLate: now.Add(-time.Minute)},
		},
	} {
		if got := sumUp(shards, now).text(time.Time{}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
