package postgres_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the database/sql driver

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/producer/outbox/outboxtest"
	"github.com/delaybridge/delaybridge/producer/outbox/postgres"
)

func TestMain(m *testing.M) { servertest.Main(m) }

func open(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 20
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// ofPgx is a transaction of pgx.
type ofPgx struct {
	pgx.Tx
	*postgres.Outbox
}

func (t ofPgx) Publish(ctx context.Context, m message.Message, w message.When) error {
	return t.Outbox.Publish(ctx, t.Tx, m, w)
}

func (t ofPgx) Cancel(ctx context.Context, id string) error { return t.Outbox.Cancel(ctx, t.Tx, id) }

func (t ofPgx) Reschedule(ctx context.Context, id string, w message.When) error {
	return t.Outbox.Reschedule(ctx, t.Tx, id, w)
}

func (t ofPgx) Exec(ctx context.Context, statement string) error {
	_, err := t.Tx.Exec(ctx, statement)
	return err
}

func (t ofPgx) End(commit bool) error {
	if commit {
		return t.Commit(context.Background())
	}
	return t.Rollback(context.Background())
}

func TestStore(t *testing.T) {
	t.Parallel()
	outboxtest.Run(t, func(t testing.TB) outboxtest.Subject {
		t.Helper()
		pool := open(t, servertest.PostgreSQL(t))
		box := migrated(t, pool)
		return outboxtest.Subject{Store: box, Begin: func(ctx context.Context) (outboxtest.Tx, error) {
			tx, err := pool.Begin(ctx)
			return ofPgx{tx, box}, err
		}}
	})
}

func migrated(t testing.TB, pool *pgxpool.Pool) *postgres.Outbox {
	t.Helper()
	box := postgres.New(pool)
	for range 2 {
		if err := box.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return box
}

func TestStoreOfDatabaseSQL(t *testing.T) {
	t.Parallel()
	outboxtest.Run(t, func(t testing.TB) outboxtest.Subject {
		t.Helper()
		url := servertest.PostgreSQL(t)
		box := migrated(t, open(t, url))
		db, err := sql.Open("pgx", url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return outboxtest.Subject{Store: box, Begin: outboxtest.BeginSQL(db, box.SQL())}
	})
}
