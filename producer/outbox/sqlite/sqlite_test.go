package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the database/sql driver

	"github.com/delaybridge/delaybridge/producer/outbox/outboxtest"
	"github.com/delaybridge/delaybridge/producer/outbox/sqlite"
)

func TestStore(t *testing.T) {
	t.Parallel()
	outboxtest.Run(t, func(t testing.TB) outboxtest.Subject {
		t.Helper()
		db := open(t)
		box := sqlite.New(db)
		for range 2 {
			if err := box.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return outboxtest.Subject{Store: box, Begin: outboxtest.BeginSQL(db, box), Free: 30 * time.Second}
	})
}

func open(t testing.TB) *sql.DB {
	t.Helper()
	// A transaction that writes takes its lock at the beginning, or it cannot wait for it later.
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "shop.db")+"?_txlock=immediate&_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(20)
	t.Cleanup(func() { _ = db.Close() })
	return db
}
