// Package postgres keeps a ledger in PostgreSQL, in the transaction of the effect:
// both are committed or neither is.
//
//	l := postgres.New(pool)
//	err := l.Migrate(ctx)
//	...
//	first, err := l.Once(ctx, key, func(ctx context.Context) error {
//		_, err := postgres.Tx(ctx).Exec(ctx, `INSERT INTO reminders ...`)
//		return err
//	})
//
// With database/sql it is [NewSQL], and the effect finds its *sql.Tx by [SQLTx].
//
// An effect that uses the pool rather than [Tx] commits by itself, whatever
// becomes of the mark; and it can wait for ever for a connection, where the pool's
// are all held by calls of Once.
package postgres

import (
	"context"
	"embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/delaybridge/delaybridge/consumer/ledger"
	"github.com/delaybridge/delaybridge/internal/schema/pgschema"
)

//go:embed migrations
var migrations embed.FS

const (
	insertMark  = `INSERT INTO delaybridge_ledger (key, done) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING`
	deleteMarks = `DELETE FROM delaybridge_ledger WHERE key IN
		(SELECT key FROM delaybridge_ledger WHERE done < $1 LIMIT $2)`
)

// Ledger is a [ledger.Ledger] and a [ledger.Forgetter]. Its marks are rows of the
// table delaybridge_ledger, in the first schema of the connection's search_path.
type Ledger struct{ pool *pgxpool.Pool }

// New returns the ledger of a database, whose tables [Ledger.Migrate] makes. It
// does no I/O. The pool remains the caller's, and needs a connection for each call
// of Once at a time.
func New(pool *pgxpool.Pool) *Ledger { return &Ledger{pool} }

// Migrate makes the ledger's tables, or brings them up to date. It may be called
// at every start, by any number of processes at once; where nothing is to be done
// its user needs no right to create tables.
func (l *Ledger) Migrate(ctx context.Context) error {
	if err := pgschema.Apply(ctx, l.pool, "ledger", migrations); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

// Once implements [ledger.Ledger]. A duplicate waits until the transaction of the
// first has ended. effect finds the transaction by [Tx]; it must not end it.
func (l *Ledger) Once(ctx context.Context, key string, effect func(ctx context.Context) error) (first bool, err error) {
	err = pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		if first, err = l.Mark(ctx, tx, key); err != nil || !first {
			return err
		}
		return effect(WithTx(ctx, tx))
	})
	return first && err == nil, err
}

// Mark marks an effect in a transaction that the caller has begun and will commit
// together with the effect. It returns false where the effect has happened already;
// then there is nothing to do. While another transaction is at it, Mark waits for
// its end.
func (l *Ledger) Mark(ctx context.Context, tx pgx.Tx, key string) (first bool, err error) {
	if err := ledger.CheckKey(key); err != nil {
		return false, err
	}
	tag, err := tx.Exec(ctx, insertMark, []byte(key), time.Now())
	if err != nil {
		return false, fmt.Errorf("ledger: mark %q: %w", key, err)
	}
	return tag.RowsAffected() == 1, nil
}

// batch is how many marks one transaction forgets, so that none is long.
const batch = 10_000

// Forget implements [ledger.Forgetter].
func (l *Ledger) Forget(ctx context.Context, before time.Time) (forgotten int64, err error) {
	for {
		tag, err := l.pool.Exec(ctx, deleteMarks, before, batch)
		if err != nil {
			return forgotten, fmt.Errorf("ledger: forget marks: %w", err)
		}
		forgotten += tag.RowsAffected()
		if tag.RowsAffected() < batch {
			return forgotten, nil
		}
	}
}

type txKey struct{}

// WithTx returns a context that carries a transaction to whatever asks for it by
// [Tx], such as the order store of consumer/orders/postgres.
func WithTx(ctx context.Context, tx pgx.Tx) context.Context {
	return context.WithValue(ctx, txKey{}, tx)
}

// Tx returns the transaction that a context carries, or nil. The context that
// [Ledger.Once] hands to the effect carries one.
func Tx(ctx context.Context) pgx.Tx {
	tx, _ := ctx.Value(txKey{}).(pgx.Tx)
	return tx
}
