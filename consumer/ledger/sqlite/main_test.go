package sqlite_test

import (
	"context"
	"database/sql"
	"testing"

	"go.uber.org/goleak"

	"github.com/delaybridge/delaybridge/consumer/ledger/ledgertest"
)

func TestMain(m *testing.M) {
	ledgertest.Victim(func(ctx context.Context, path string) (ledgertest.Subject, error) {
		db, err := sql.Open("sqlite", dataSource(path))
		if err != nil {
			return ledgertest.Subject{}, err
		}
		return subject(ctx, db)
	})
	goleak.VerifyTestMain(m)
}
