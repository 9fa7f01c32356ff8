package servertest

import (
	"context"
	"testing"
)

// verifier is a *redisbridge.Park.
type verifier interface {
	Verify(ctx context.Context) (faults, miscounts []string, err error)
}

// VerifyAfter checks, when the test is over, that what it has left in Redis does not
// contradict itself. Call it before the test starts anything that parks or promotes: what
// starts later has ended by then.
func VerifyAfter(t testing.TB, park verifier) {
	t.Helper()
	verifyAfter(t, park, t.Errorf)
}

// VerifyAfterKills is VerifyAfter for a test with a Redis of its own, which it may kill: that
// may leave wrong counts behind.
func VerifyAfterKills(t testing.TB, park verifier) {
	t.Helper()
	verifyAfter(t, park, t.Logf)
}

func verifyAfter(t testing.TB, park verifier, miscounted func(format string, args ...any)) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanUpTimeout)
		defer cancel()
		faults, miscounts, err := park.Verify(ctx)
		if err != nil {
			t.Errorf("verify: %v", err)
		}
		for _, fault := range faults {
			t.Errorf("verify: %s", fault)
		}
		for _, miscount := range miscounts {
			miscounted("verify: %s", miscount)
		}
	})
}
