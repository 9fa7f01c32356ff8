package mysql_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/delaybridge/delaybridge/consumer/ledger/ledgertest"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

func TestMain(m *testing.M) {
	ledgertest.Victim(func(ctx context.Context, dsn string) (ledgertest.Subject, error) {
		db, err := sql.Open("mysql", dsn)
		if err != nil {
			return ledgertest.Subject{}, err
		}
		return subject(ctx, db)
	})
	servertest.Main(m)
}
