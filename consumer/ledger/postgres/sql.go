package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/delaybridge/delaybridge/consumer/ledger"
	"github.com/delaybridge/delaybridge/internal/schema/pgschema"
	"github.com/delaybridge/delaybridge/internal/sqltx"
)

// SQL is the ledger for database/sql, by whatever driver: pgx's stdlib, lib/pq, or what is below GORM.
// It has the same marks as a [Ledger] of the same database.
type SQL struct{ db *sql.DB }

// NewSQL returns the ledger of a database, whose tables [SQL.Migrate] makes. It does no I/O. db remains
// the caller's, and needs a connection for each call of Once at a time.
func NewSQL(db *sql.DB) *SQL { return &SQL{db} }

// Migrate is [Ledger.Migrate].
func (l *SQL) Migrate(ctx context.Context) error {
	if err := pgschema.ApplySQL(ctx, l.db, "ledger", migrations); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

// Once implements [ledger.Ledger]. A duplicate waits until the transaction of the first has ended.
// effect finds the transaction by [SQLTx]; it must not end it.
func (l *SQL) Once(ctx context.Context, key string, effect func(ctx context.Context) error) (first bool, err error) {
	err = sqltx.Run(ctx, l.db, nil, func(tx *sql.Tx) error {
		if first, err = l.Mark(ctx, tx, key); err != nil || !first {
			return err
		}
		return effect(WithSQLTx(ctx, tx))
	})
	return first && err == nil, err
}

// Mark is [Ledger.Mark].
func (l *SQL) Mark(ctx context.Context, tx *sql.Tx, key string) (first bool, err error) {
	if err := ledger.CheckKey(key); err != nil {
		return false, err
	}
	result, err := tx.ExecContext(ctx, insertMark, []byte(key), time.Now())
	if err != nil {
		return false, fmt.Errorf("ledger: mark %q: %w", key, err)
	}
	n, err := result.RowsAffected()
	return n == 1, err
}

// Forget implements [ledger.Forgetter].
func (l *SQL) Forget(ctx context.Context, before time.Time) (forgotten int64, err error) {
	for {
		result, err := l.db.ExecContext(ctx, deleteMarks, before, batch)
		if err != nil {
			return forgotten, fmt.Errorf("ledger: forget marks: %w", err)
		}
		n, err := result.RowsAffected()
		if forgotten += n; err != nil || n < batch {
			return forgotten, err
		}
	}
}

type sqlTxKey struct{}

// WithSQLTx returns a context that carries a transaction to whatever asks for it by [SQLTx].
func WithSQLTx(ctx context.Context, tx *sql.Tx) context.Context {
	return context.WithValue(ctx, sqlTxKey{}, tx)
}

// SQLTx returns the transaction of database/sql that a context carries, or nil. The context that
// [SQL.Once] hands to the effect carries one.
func SQLTx(ctx context.Context) *sql.Tx {
	tx, _ := ctx.Value(sqlTxKey{}).(*sql.Tx)
	return tx
}
