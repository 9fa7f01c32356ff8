package sqlite

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
)

//go:embed schema.sql
var version1 string

// migrations returns the scripts that lead from one version of the schema to
// the next, from nothing on. PRAGMA user_version says how many a file has had.
func migrations() []string { return []string{version1} }

// migrate brings the file up to date. Two processes may do so at once: the
// transaction takes the write lock before it reads the version.
func migrate(ctx context.Context, db *sql.DB) error {
	scripts := migrations()
	return write(ctx, db, func(tx *sql.Tx) error {
		var version int
		if err := tx.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil {
			return err
		}
		if version > len(scripts) {
			return fmt.Errorf("schema version %d was written by a later release; this one knows up to %d", version, len(scripts))
		}
		for ; version < len(scripts); version++ {
			if _, err := tx.ExecContext(ctx, scripts[version]); err != nil {
				return fmt.Errorf("migrate to schema version %d: %w", version+1, err)
			}
		}
		_, err := tx.ExecContext(ctx, fmt.Sprintf(`PRAGMA user_version = %d`, version))
		return err
	})
}

// write runs do in a transaction that holds the write lock from its beginning.
func write(ctx context.Context, db *sql.DB, do func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}
