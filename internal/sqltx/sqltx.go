// Package sqltx runs work in transactions of database/sql.
package sqltx

import (
	"context"
	"database/sql"
	"errors"
)

// Run runs do in a transaction, and commits it if do returns nil. Otherwise, and
// where do panics, it rolls back.
func Run(ctx context.Context, db *sql.DB, options *sql.TxOptions, do func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, options)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// Within runs do as a part of the caller's transaction. If do fails, that part alone is
// rolled back.
func Within(ctx context.Context, tx *sql.Tx, do func(*sql.Tx) error) error {
	const name = "delaybridge"
	if _, err := tx.ExecContext(ctx, "SAVEPOINT "+name); err != nil {
		return err
	}
	if err := do(tx); err != nil {
		_, undone := tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT "+name)
		return errors.Join(err, undone)
	}
	_, err := tx.ExecContext(ctx, "RELEASE SAVEPOINT "+name)
	return err
}
