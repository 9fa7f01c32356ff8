package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	_ "github.com/lib/pq"              // the driver postgres

	"github.com/delaybridge/delaybridge/consumer/ledger/ledgertest"
	"github.com/delaybridge/delaybridge/consumer/ledger/postgres"
	"github.com/delaybridge/delaybridge/internal/servers/databases"
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

// fresh is a ledger in a database of its own, beside a table of effects.
func fresh(t testing.TB) func() ledgertest.Subject {
	t.Helper()
	url := servertest.PostgreSQL(t)
	return func() ledgertest.Subject {
		s, err := subject(t.Context(), open(t, url))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// subject is a ledger whose effects are rows beside it.
func subject(ctx context.Context, pool *pgxpool.Pool) (ledgertest.Subject, error) {
	l := postgres.New(pool)
	if err := l.Migrate(ctx); err != nil {
		return ledgertest.Subject{}, err
	}
	_, err := pool.Exec(ctx, `CREATE TABLE IF NOT EXISTS effects (id bigserial, key bytea)`)
	return ledgertest.Subject{
		Ledger: l,
		Effect: func(ctx context.Context, key string) error {
			_, err := postgres.Tx(ctx).Exec(ctx, `INSERT INTO effects (key) VALUES ($1)`, []byte(key))
			return err
		},
		Effects: func(ctx context.Context, key string) (n int, err error) {
			err = pool.QueryRow(ctx, `SELECT count(*) FROM effects WHERE key = $1`, []byte(key)).Scan(&n)
			return n, err
		},
	}, err
}

func TestConformance(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, ledgertest.Suite{Fresh: fresh, Together: true})
}

// The same for database/sql, by two drivers.
func TestConformanceOfSQL(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pgx", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			ledgertest.Run(t, ledgertest.Suite{Together: true, Fresh: func(t testing.TB) func() ledgertest.Subject {
				t.Helper()
				url := servertest.PostgreSQL(t)
				return func() ledgertest.Subject {
					db, err := sql.Open(driver, url)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = db.Close() })
					db.SetMaxOpenConns(connections)
					return sqlSubject(t, db)
				}
			}})
		})
	}
}

func sqlSubject(t testing.TB, db *sql.DB) ledgertest.Subject {
	t.Helper()
	l := postgres.NewSQL(db)
	if err := l.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE IF NOT EXISTS effects (id bigserial, key bytea)`); err != nil {
		t.Fatal(err)
	}
	return ledgertest.Subject{
		Ledger: l,
		Effect: func(ctx context.Context, key string) error {
			_, err := postgres.SQLTx(ctx).ExecContext(ctx, `INSERT INTO effects (key) VALUES ($1)`, []byte(key))
			return err
		},
		Effects: func(ctx context.Context, key string) (n int, err error) {
			err = db.QueryRowContext(ctx, `SELECT count(*) FROM effects WHERE key = $1`, []byte(key)).Scan(&n)
			return n, err
		},
	}
}

func TestProcessesAreKilled(t *testing.T) {
	t.Parallel()
	url := servertest.PostgreSQL(t)
	s, err := subject(t.Context(), open(t, url))
	if err != nil {
		t.Fatal(err)
	}
	ledgertest.Suite{Together: true}.RunKilled(t, url, s)
}

func TestTheServerIsKilled(t *testing.T) {
	t.Parallel()
	server, err := databases.StartPostgreSQL(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s, err := subject(t.Context(), open(t, server.URL()))
	if err != nil {
		t.Fatal(err)
	}
	ledgertest.Suite{Together: true}.RunServerKilled(t, s, func(ctx context.Context) error {
		return errors.Join(server.Kill(ctx), server.Restart(ctx))
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

// A user who may create nothing can use what somebody else has migrated.
func TestMigrateWithoutTheRightToCreate(t *testing.T) {
	t.Parallel()
	url := servertest.PostgreSQL(t)
	pool := open(t, url)
	if err := postgres.New(pool).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	var name string
	if err := conn.QueryRow(t.Context(), `SELECT current_database()`).Scan(&name); err != nil {
		t.Fatal(err)
	}
	quoted := `"` + name + `"`
	for _, statement := range []string{
		`CREATE ROLE ` + quoted + ` LOGIN`,
		`REVOKE CREATE ON SCHEMA public FROM PUBLIC`,
		`GRANT SELECT, INSERT, DELETE ON ALL TABLES IN SCHEMA public TO ` + quoted,
	} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		ctx := context.Background()
		for _, statement := range []string{`DROP OWNED BY ` + quoted, `DROP ROLE ` + quoted} {
			if _, err := pool.Exec(ctx, statement); err != nil {
				t.Error(err)
			}
		}
	})
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.User = name
	restricted, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer restricted.Close()
	l := postgres.New(restricted)
	if err := l.Migrate(t.Context()); err != nil {
		t.Errorf("nothing is to be done: %v", err)
	}
	if first, err := l.Once(t.Context(), "m-1", func(context.Context) error { return nil }); !first || err != nil {
		t.Errorf("got %v, %v, want the first", first, err)
	}
}

// The caller's own transaction decides over the mark.
func TestMarkInAnOwnTransaction(t *testing.T) {
	t.Parallel()
	pool := open(t, servertest.PostgreSQL(t))
	l := postgres.New(pool)
	if err := l.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ commit, first bool }{{false, true}, {true, true}, {true, false}} {
		tx, err := pool.Begin(t.Context())
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
		if err := end(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// A database that a later release has migrated is left alone.
func TestMigrateKnowsALaterRelease(t *testing.T) {
	t.Parallel()
	pool := open(t, servertest.PostgreSQL(t))
	l := postgres.New(pool)
	if err := l.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `UPDATE delaybridge_schema SET version = version + 1`); err != nil {
		t.Fatal(err)
	}
	if err := l.Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "later release") {
		t.Errorf("got %v, want to be told of a later release", err)
	}
}
