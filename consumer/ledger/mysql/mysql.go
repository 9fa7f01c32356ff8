// Package mysql keeps a ledger in MariaDB or MySQL, in the transaction of the
// effect: both are committed or neither is. The tables are InnoDB's; so must those
// be that the effect changes.
//
//	db, err := sql.Open("mysql", dsn) // github.com/go-sql-driver/mysql
//	l := mysql.New(db)
//	err = l.Migrate(ctx)
//	...
//	first, err := l.Once(ctx, key, func(ctx context.Context) error {
//		_, err := mysql.Tx(ctx).ExecContext(ctx, `INSERT INTO reminders ...`)
//		return err
//	})
//
// An effect that uses the database rather than [Tx] commits by itself, whatever
// becomes of the mark. So does one that creates or alters a table: there such a
// statement commits the transaction it is in.
package mysql

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/delaybridge/delaybridge/consumer/ledger"
	"github.com/delaybridge/delaybridge/internal/schema"
	"github.com/delaybridge/delaybridge/internal/sqltx"
)

//go:embed migrations
var migrations embed.FS

// Numbers of the server's errors.
const (
	errDuplicate   = 1062
	errLockTimeout = 1205 // another transaction was at it for innodb_lock_wait_timeout
	errDeadlock    = 1213 // among those that waited for one that has rolled back
)

// Ledger is a [ledger.Ledger] and a [ledger.Forgetter]. Its marks are rows of the
// table delaybridge_ledger.
type Ledger struct{ db *sql.DB }

// New returns the ledger of a database, whose tables [Ledger.Migrate] makes. It
// does no I/O. The data source must name a database, and db remains the caller's.
func New(db *sql.DB) *Ledger { return &Ledger{db} }

// Migrate makes the ledger's tables, or brings them up to date. It may be called
// at every start, by any number of processes at once; where nothing is to be done
// its user needs no right to create tables.
func (l *Ledger) Migrate(ctx context.Context) error {
	if err := schema.MySQL(ctx, l.db, "ledger", migrations); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

// Once implements [ledger.Ledger]. A duplicate waits until the transaction of the
// first has ended, for as long as innodb_lock_wait_timeout (50 s by default), and
// then returns ErrBusy. effect finds the transaction, whose isolation is READ
// COMMITTED, by [Tx]; it must not end it.
func (l *Ledger) Once(ctx context.Context, key string, effect func(ctx context.Context) error) (first bool, err error) {
	err = sqltx.Run(ctx, l.db, &sql.TxOptions{Isolation: sql.LevelReadCommitted}, func(tx *sql.Tx) error {
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
// its end, and may return an error that wraps [ledger.ErrBusy]; the transaction is
// of no more use then.
func (l *Ledger) Mark(ctx context.Context, tx *sql.Tx, key string) (first bool, err error) {
	if err := ledger.CheckKey(key); err != nil {
		return false, err
	}
	// Not INSERT IGNORE, which would cut off what does not fit, nor ON DUPLICATE KEY
	// UPDATE, whose count of rows depends on the data source's clientFoundRows.
	_, err = tx.ExecContext(ctx, `INSERT INTO delaybridge_ledger (id, done_ms) VALUES (?, ?)`, []byte(key), time.Now().UnixMilli())
	refusal, _ := errors.AsType[*mysql.MySQLError](err)
	switch {
	case err == nil:
		return true, nil
	case refusal != nil && refusal.Number == errDuplicate:
		return false, nil
	case refusal != nil && (refusal.Number == errDeadlock || refusal.Number == errLockTimeout):
		err = fmt.Errorf("%w: %w", ledger.ErrBusy, err)
	}
	return false, fmt.Errorf("ledger: mark %q: %w", key, err)
}

// batch is how many marks one transaction forgets, so that none is long.
const batch = 10_000

// Forget implements [ledger.Forgetter].
func (l *Ledger) Forget(ctx context.Context, before time.Time) (forgotten int64, err error) {
	for {
		result, err := l.db.ExecContext(ctx, `DELETE FROM delaybridge_ledger WHERE done_ms < ? LIMIT ?`, before.UnixMilli(), batch)
		if err != nil {
			return forgotten, fmt.Errorf("ledger: forget marks: %w", err)
		}
		n, err := result.RowsAffected()
		if forgotten += n; err != nil || n < batch {
			return forgotten, err
		}
	}
}

type txKey struct{}

// WithTx returns a context that carries a transaction to whatever asks for it by
// [Tx], such as the order store of consumer/orders/mysql.
func WithTx(ctx context.Context, tx *sql.Tx) context.Context {
	return context.WithValue(ctx, txKey{}, tx)
}

// Tx returns the transaction that a context carries, or nil. The context that
// [Ledger.Once] hands to the effect carries one.
func Tx(ctx context.Context) *sql.Tx {
	tx, _ := ctx.Value(txKey{}).(*sql.Tx)
	return tx
}
