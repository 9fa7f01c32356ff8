package mysql_test

import (
	"context"
	"database/sql"
	"sync"
	"testing"

	"github.com/delaybridge/delaybridge/consumer/ledger"
	ledgers "github.com/delaybridge/delaybridge/consumer/ledger/mysql"
	"github.com/delaybridge/delaybridge/consumer/orders/mysql"
	"github.com/delaybridge/delaybridge/consumer/orders/orderstest"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

// connections of a pool: a crowd of consumers waits for them.
const connections = 50

func open(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestConformance(t *testing.T) {
	t.Parallel()
	orderstest.Run(t, func(t testing.TB) func() orderstest.Shop {
		t.Helper()
		dsn := servertest.MariaDB(t)
		return func() orderstest.Shop {
			s := mysql.New(open(t, dsn))
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
		dsn := servertest.MariaDB(t)
		return func() (orderstest.Shop, ledger.Ledger) {
			db := open(t, dsn)
			s, l := mysql.New(db), ledgers.New(db)
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
	dsn := servertest.MariaDB(t)
	var all sync.WaitGroup
	for range 10 {
		db := open(t, dsn)
		all.Go(func() {
			if err := mysql.New(db).Migrate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
