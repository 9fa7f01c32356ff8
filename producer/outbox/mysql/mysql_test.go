package mysql_test

import (
	"database/sql"
	"testing"

	_ "github.com/go-sql-driver/mysql" // the database/sql driver

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/producer/outbox/mysql"
	"github.com/delaybridge/delaybridge/producer/outbox/outboxtest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

func TestStore(t *testing.T) {
	t.Parallel()
	outboxtest.Run(t, func(t testing.TB) outboxtest.Subject {
		t.Helper()
		db := open(t)
		box := mysql.New(db)
		for range 2 {
			if err := box.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return outboxtest.Subject{Store: box, Begin: outboxtest.BeginSQL(db, box)}
	})
}

func open(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", servertest.MariaDB(t))
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(20)
	t.Cleanup(func() { _ = db.Close() })
	return db
}
