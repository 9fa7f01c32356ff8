package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	_ "modernc.org/sqlite" // the database/sql driver

	"github.com/delaybridge/delaybridge/consumer/ledger"
	"github.com/delaybridge/delaybridge/consumer/ledger/ledgertest"
	"github.com/delaybridge/delaybridge/consumer/ledger/sqlite"
)

const patience = "120000" // ms

func open(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", dataSource(path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func dataSource(path string) string {
	return "file:" + path + "?_pragma=busy_timeout(" + patience + ")&_pragma=journal_mode(WAL)"
}

// subject is a ledger whose effects are rows beside it.
func subject(ctx context.Context, db *sql.DB) (ledgertest.Subject, error) {
	db.SetMaxOpenConns(4) // writers wait in SQLite, which polls
	l := sqlite.New(db)
	if err := l.Migrate(ctx); err != nil {
		return ledgertest.Subject{}, err
	}
	_, err := db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS effects (key BLOB)`)
	return ledgertest.Subject{
		Ledger: l,
		Effect: func(ctx context.Context, key string) error {
			_, err := sqlite.Tx(ctx).ExecContext(ctx, `INSERT INTO effects (key) VALUES (?)`, []byte(key))
			return err
		},
		Effects: func(ctx context.Context, key string) (n int, err error) {
			err = db.QueryRowContext(ctx, `SELECT count(*) FROM effects WHERE key = ?`, []byte(key)).Scan(&n)
			return n, err
		},
	}, err
}

func TestConformance(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, ledgertest.Suite{Together: true, OneWriter: true, Fresh: func(t testing.TB) func() ledgertest.Subject {
		t.Helper()
		path := filepath.Join(t.TempDir(), "ledger.db")
		return func() ledgertest.Subject {
			s, err := subject(t.Context(), open(t, path))
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
	}})
}

func TestProcessesAreKilled(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	s, err := subject(t.Context(), open(t, path))
	if err != nil {
		t.Fatal(err)
	}
	ledgertest.Suite{Together: true}.RunKilled(t, path, s)
}

func TestMigrateAtOnce(t *testing.T) {
	t.Parallel()
	for range 30 { // new files, some of which SQLite is not ready to share at first
		path := filepath.Join(t.TempDir(), "ledger.db")
		var all sync.WaitGroup
		for range 10 {
			db := open(t, path)
			all.Go(func() {
				if err := sqlite.New(db).Migrate(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
}

// What waits for longer than the busy timeout is told that the ledger is busy,
// whether its transactions begin with the write lock or not.
func TestBusy(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	db := open(t, path)
	l := sqlite.New(db)
	if err := l.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := l.Once(t.Context(), "m-1", func(context.Context) error {
		for name, path := range map[string]string{"deferred": path + "?_txlock=deferred", "immediate": path + "?_txlock=immediate"} {
			impatient, err := sql.Open("sqlite", "file:"+strings.Replace(path, "?", "?_pragma=busy_timeout(1)&", 1))
			if err != nil {
				return err
			}
			first, err := sqlite.New(impatient).Once(t.Context(), "m-2", func(context.Context) error { return nil })
			if first || !errors.Is(err, ledger.ErrBusy) {
				t.Errorf("%s: got %v, %v, want ErrBusy", name, first, err)
			}
			if err := impatient.Close(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A file that a later release has migrated is left alone.
func TestMigrateKnowsALaterRelease(t *testing.T) {
	t.Parallel()
	db := open(t, filepath.Join(t.TempDir(), "ledger.db"))
	l := sqlite.New(db)
	if err := l.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), `UPDATE delaybridge_schema SET version = version + 1`); err != nil {
		t.Fatal(err)
	}
	if err := l.Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "later release") {
		t.Errorf("got %v, want to be told of a later release", err)
	}
}
