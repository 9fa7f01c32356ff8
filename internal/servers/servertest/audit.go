package servertest

import (
	"context"
	"testing"
)

// auditor is a *redisbridge.Park.
type auditor interface {
	Audit(ctx context.Context) (faults, miscounts []string, err error)
}

// AuditAfter checks, when the test is over, that what it has left in Redis does not
// contradict itself. Call it before the test starts anything that parks or promotes: what
// starts later has ended by then.
func AuditAfter(t testing.TB, park auditor) {
	t.Helper()
	auditAfter(t, park, t.Errorf)
}

// AuditAfterKills is AuditAfter for a test with a Redis of its own, which it may kill: that
// may leave wrong counts behind.
func AuditAfterKills(t testing.TB, park auditor) {
	t.Helper()
	auditAfter(t, park, t.Logf)
}

func auditAfter(t testing.TB, park auditor, miscounted func(format string, args ...any)) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanUpTimeout)
		defer cancel()
		faults, miscounts, err := park.Audit(ctx)
		if err != nil {
			t.Errorf("audit: %v", err)
		}
		for _, fault := range faults {
			t.Errorf("audit: %s", fault)
		}
		for _, miscount := range miscounts {
			miscounted("audit: %s", miscount)
		}
	})
}
