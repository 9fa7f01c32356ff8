package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/delaybridge/delaybridge/consumer/ledger/ledgertest"
	"github.com/delaybridge/delaybridge/consumer/ledger/mysql"
	"github.com/delaybridge/delaybridge/internal/servers/databases"
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

// fresh is a ledger in a database of its own, beside a table of effects.
func fresh(t testing.TB) func() ledgertest.Subject {
	t.Helper()
	dsn := servertest.MariaDB(t)
	return func() ledgertest.Subject {
		s, err := subject(t.Context(), open(t, dsn))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// subject is a ledger whose effects are rows beside it.
func subject(ctx context.Context, db *sql.DB) (ledgertest.Subject, error) {
	l := mysql.New(db)
	if err := l.Migrate(ctx); err != nil {
		return ledgertest.Subject{}, err
	}
	_, err := db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS effects (id BIGINT AUTO_INCREMENT PRIMARY KEY, name VARBINARY(512), INDEX (name))`)
	return ledgertest.Subject{
		Ledger: l,
		Effect: func(ctx context.Context, key string) error {
			_, err := mysql.Tx(ctx).ExecContext(ctx, `INSERT INTO effects (name) VALUES (?)`, []byte(key))
			return err
		},
		Effects: func(ctx context.Context, key string) (n int, err error) {
			err = db.QueryRowContext(ctx, `SELECT count(*) FROM effects WHERE name = ?`, []byte(key)).Scan(&n)
			return n, err
		},
	}, err
}

func TestConformance(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, ledgertest.Suite{Fresh: fresh, Together: true})
}

func TestProcessesAreKilled(t *testing.T) {
	t.Parallel()
	dsn := servertest.MariaDB(t)
	s, err := subject(t.Context(), open(t, dsn))
	if err != nil {
		t.Fatal(err)
	}
	ledgertest.Suite{Together: true}.RunKilled(t, dsn, s)
}

func TestTheServerIsKilled(t *testing.T) {
	t.Parallel()
	server, err := databases.StartMariaDB(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if _, err := open(t, server.DSN()).ExecContext(t.Context(), `CREATE DATABASE shop`); err != nil {
		t.Fatal(err)
	}
	s, err := subject(t.Context(), open(t, server.DSN()+"shop"))
	if err != nil {
		t.Fatal(err)
	}
	ledgertest.Suite{Together: true}.RunServerKilled(t, s, func(ctx context.Context) error {
		return errors.Join(server.Kill(ctx), server.Restart(ctx))
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

// The caller's own transaction decides over the mark.
func TestMarkInAnOwnTransaction(t *testing.T) {
	t.Parallel()
	db := open(t, servertest.MariaDB(t))
	l := mysql.New(db)
	if err := l.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ commit, first bool }{{false, true}, {true, true}, {true, false}} {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if first, err := l.Mark(t.Context(), tx, "m-1"); err != nil || first != c.first {
			t.Errorf("got %v, %v, want %v", first, err, c.first)
		}
		end := tx.Rollback
		if c.commit {
			end = tx.Commit
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
}

// A database that a later release has migrated is left alone.
func TestMigrateKnowsALaterRelease(t *testing.T) {
	t.Parallel()
	db := open(t, servertest.MariaDB(t))
	l := mysql.New(db)
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

func TestTableOfSomebodyElseIsNotAdopted(t *testing.T) {
	t.Parallel()
	db := open(t, servertest.MariaDB(t))
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE delaybridge_ledger (id INT)`); err != nil {
		t.Fatal(err)
	}
	if err := mysql.New(db).Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "delaybridge_ledger is there already") {
		t.Errorf("got %v, want it to name the table", err)
	}
}
