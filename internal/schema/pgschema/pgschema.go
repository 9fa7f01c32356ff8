// Package pgschema brings tables up to date on PostgreSQL; it is apart from
// package schema because not everybody wants its driver.
package pgschema

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/delaybridge/delaybridge/internal/schema"
)

// lock is the number of the advisory lock that one process holds while it applies
// scripts: any number will do that nobody else uses.
const lock = 0x64656c6179627267 // "delaybrg"

// Apply brings a component up to date, in one transaction. Any number of
// processes may call it at once.
func Apply(ctx context.Context, pool *pgxpool.Pool, component string, files fs.FS) error {
	scripts, err := schema.Read(files)
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(lock)); err != nil {
			return err
		}
		version, err := find(ctx, tx, component)
		if err != nil {
			return err
		}
		missing, err := scripts.After(version)
		if err != nil || len(missing) == 0 {
			return err
		}
		for _, script := range missing {
			if _, err := tx.Exec(ctx, script); err != nil {
				return fmt.Errorf("migrate %s to schema version %d: %w", component, version+1, err)
			}
			version++
		}
		_, err = tx.Exec(ctx, `INSERT INTO `+schema.Table+` (component, version) VALUES ($1, $2)
			ON CONFLICT (component) DO UPDATE SET version = excluded.version`, component, version)
		return err
	})
}

// find returns the version of a component, and makes the table of versions where
// there is none. A user who may create nothing can do without where all is up to
// date: so the table is looked for first.
func find(ctx context.Context, tx pgx.Tx, component string) (version int, err error) {
	var there bool
	if err := tx.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, schema.Table).Scan(&there); err != nil {
		return 0, err
	}
	if !there {
		_, err := tx.Exec(ctx, `CREATE TABLE `+schema.Table+` (component text PRIMARY KEY, version integer NOT NULL)`)
		return 0, err
	}
	err = tx.QueryRow(ctx, `SELECT version FROM `+schema.Table+` WHERE component = $1`, component).Scan(&version)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return version, err
}
