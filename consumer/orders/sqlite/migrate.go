package sqlite

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"

	"github.com/delaybridge/delaybridge/internal/sqltx"
)

//go:embed schema.sql
var version1 string

// migrations returns the scripts that lead from one version of the schema to
// the next, from nothing on. PRAGMA user_version says how many a file has had.
func migrations() []string { return []string{version1} }

// migrate brings the file up to date. Two processes may do so at once: the
// transaction takes the write lock before it reads the version.
func migrate(ctx context.Context, db *sql.DB) error {
	if err := sqltx.ConnectSQLite(ctx, db); err != nil {
		return err
	}
	scripts := migrations()
	return sqltx.Run(ctx, db, nil, func(tx *sql.Tx) error {
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
