package postgres_test

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/delaybridge/delaybridge/consumer/ledger"
	ledgers "github.com/delaybridge/delaybridge/consumer/ledger/postgres"
	"github.com/delaybridge/delaybridge/consumer/orders/orderstest"
	"github.com/delaybridge/delaybridge/consumer/orders/postgres"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

// connections of a pool: a crowd of consumers waits for them.
const connections = 50

func open(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = connections
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func TestConformance(t *testing.T) {
	t.Parallel()
	orderstest.Run(t, func(t testing.TB) func() orderstest.Shop {
		t.Helper()
		url := servertest.PostgreSQL(t)
		return func() orderstest.Shop {
			s := postgres.New(open(t, url))
			if err := s.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			return s
		}
	})
}

func TestWithLedger(t *testing.T) {
	t.Parallel()
	orderstest.RunWithLedger(t, func(t testing.TB) func() (orderstest.Shop, ledger.Ledger) {
		t.Helper()
		url := servertest.PostgreSQL(t)
		return func() (orderstest.Shop, ledger.Ledger) {
			pool := open(t, url)
			s, l := postgres.New(pool), ledgers.New(pool)
			for _, migrate := range []interface {
				Migrate(ctx context.Context) error
			}{s, l} {
				if err := migrate.Migrate(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			return s, l
		}
	})
}

func TestMigrateAtOnce(t *testing.T) {
	t.Parallel()
	url := servertest.PostgreSQL(t)
	var all sync.WaitGroup
	for range 10 {
		pool := open(t, url)
		all.Go(func() {
			if err := postgres.New(pool).Migrate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
