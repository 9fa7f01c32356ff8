// Package sleep pauses, and wakes up when a context ends.
package sleep

import (
	"context"
	"time"
)

// For returns after d, or when ctx ends if that is sooner. It returns whether d has passed.
func For(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
