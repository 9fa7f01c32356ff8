// Package sqlite keeps a ledger in an SQLite file, in the transaction of the
// effect: both are committed or neither is. It brings no driver: any one for
// database/sql will do.
//
//	db, err := sql.Open("sqlite", "file:shop.db?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)") // modernc.org/sqlite
//	l := sqlite.New(db)
//	err = l.Migrate(ctx)
//	...
//	first, err := l.Once(ctx, key, func(ctx context.Context) error {
//		_, err := sqlite.Tx(ctx).ExecContext(ctx, `INSERT INTO reminders ...`)
//		return err
//	})
//
// SQLite has one writer at a time. So while an effect runs, every other one waits,
// and an effect that writes by db rather than by [Tx] waits for itself: until the
// busy timeout, or for ever where db has a single connection.
package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/delaybridge/delaybridge/consumer/ledger"
	"github.com/delaybridge/delaybridge/internal/schema"
	"github.com/delaybridge/delaybridge/internal/sqltx"
)

//go:embed migrations
var migrations embed.FS

// Ledger is a [ledger.Ledger] and a [ledger.Forgetter]. Its marks are rows of the
// table delaybridge_ledger.
type Ledger struct{ db *sql.DB }

// New returns the ledger of a file, whose tables [Ledger.Migrate] makes. It does no
// I/O, and db remains the caller's. Set a busy timeout longer than the longest
// effect, and synchronous to FULL, or a power failure may take the last commits
// with it.
func New(db *sql.DB) *Ledger { return &Ledger{db} }

// Migrate makes the ledger's tables, or brings them up to date. It may be called
// at every start, by any number of processes at once.
func (l *Ledger) Migrate(ctx context.Context) error {
	if err := schema.SQLite(ctx, l.db, "ledger", migrations); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

// Once implements [ledger.Ledger]. Every other effect waits until the transaction
// has ended, for as long as the busy timeout, and then returns ErrBusy. effect
// finds the transaction by [Tx]; it must not end it.
func (l *Ledger) Once(ctx context.Context, key string, effect func(ctx context.Context) error) (first bool, err error) {
	err = sqltx.Run(ctx, l.db, nil, func(tx *sql.Tx) error {
		if first, err = l.Mark(ctx, tx, key); err != nil || !first {
			return err
		}
		return effect(WithTx(ctx, tx))
	})
	if !first && sqltx.SQLiteBusy(err) && !errors.Is(err, ledger.ErrBusy) { // already as the transaction began
		err = fmt.Errorf("ledger: %w: %w", ledger.ErrBusy, err)
	}
	return first && err == nil, err
}

// Mark marks an effect in a transaction that the caller has begun and will commit
// together with the effect. It returns false where the effect has happened already;
// then there is nothing to do. It takes the write lock, for which it waits as long
// as the busy timeout; then it returns an error that wraps [ledger.ErrBusy].
func (l *Ledger) Mark(ctx context.Context, tx *sql.Tx, key string) (first bool, err error) {
	if err := ledger.CheckKey(key); err != nil {
		return false, err
	}
	result, err := tx.ExecContext(ctx, `INSERT INTO delaybridge_ledger (key, done_ms) VALUES (?, ?) ON CONFLICT (key) DO NOTHING`,
		[]byte(key), time.Now().UnixMilli())
	if err == nil {
		var n int64
		if n, err = result.RowsAffected(); err == nil {
			return n == 1, nil
		}
	}
	if sqltx.SQLiteBusy(err) {
		err = fmt.Errorf("%w: %w", ledger.ErrBusy, err)
	}
	return false, fmt.Errorf("ledger: mark %q: %w", key, err)
}

// batch is how many marks one transaction forgets, so that none is long.
const batch = 10_000

// Forget implements [ledger.Forgetter].
func (l *Ledger) Forget(ctx context.Context, before time.Time) (forgotten int64, err error) {
	for {
		result, err := l.db.ExecContext(ctx, `DELETE FROM delaybridge_ledger WHERE key IN
			(SELECT key FROM delaybridge_ledger WHERE done_ms < ? LIMIT ?)`, before.UnixMilli(), batch)
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
// [Tx], such as the order store of consumer/orders/sqlite.
func WithTx(ctx context.Context, tx *sql.Tx) context.Context {
	return context.WithValue(ctx, txKey{}, tx)
}

// Tx returns the transaction that a context carries, or nil. The context that
// [Ledger.Once] hands to the effect carries one.
func Tx(ctx context.Context) *sql.Tx {
	tx, _ := ctx.Value(txKey{}).(*sql.Tx)
	return tx
}
