package postgres_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/delaybridge/delaybridge/consumer/ledger/ledgertest"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

func TestMain(m *testing.M) {
	ledgertest.Victim(func(ctx context.Context, url string) (ledgertest.Subject, error) {
		pool, err := pgxpool.New(ctx, url)
		if err != nil {
			return ledgertest.Subject{}, err
		}
		return subject(ctx, pool)
	})
	servertest.Main(m)
}
