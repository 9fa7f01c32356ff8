// Package pgschema brings tables up to date on PostgreSQL; it is apart from
// package schema because not everybody wants its driver.
package pgschema

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/delaybridge/delaybridge/internal/schema"
	"github.com/delaybridge/delaybridge/internal/sqltx"
)

// lock is the number of the advisory lock that one process holds while it applies
// scripts: any number will do that no other program uses.
const lock = 0x64656c6179627267 // "delaybrg"

// transaction is one of pgx or of database/sql.
type transaction interface {
	exec(ctx context.Context, statement string, args ...any) error
	// read reads one value, and returns false where there is no row.
	read(ctx context.Context, into any, query string, args ...any) (bool, error)
}

// Apply brings a component up to date, in one transaction. Any number of
// processes may call it at once.
func Apply(ctx context.Context, pool *pgxpool.Pool, component string, files fs.FS) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return apply(ctx, ofPGX{tx}, component, files) })
}

// ApplySQL is Apply for database/sql.
func ApplySQL(ctx context.Context, db *sql.DB, component string, files fs.FS) error {
	return sqltx.Run(ctx, db, nil, func(tx *sql.Tx) error { return apply(ctx, ofSQL{tx}, component, files) })
}

func apply(ctx context.Context, tx transaction, component string, files fs.FS) error {
	scripts, err := schema.Read(files)
	if err != nil {
		return err
	}
	if err := tx.exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(lock)); err != nil {
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
		if err := tx.exec(ctx, script); err != nil {
			return fmt.Errorf("migrate %s to schema version %d: %w", component, version+1, err)
		}
		version++
	}
	return tx.exec(ctx, `INSERT INTO `+schema.Table+` (component, version) VALUES ($1, $2)
		ON CONFLICT (component) DO UPDATE SET version = excluded.version`, component, version)
}

// find returns the version of a component, and makes the table of versions where
// there is none. A user who may create nothing can do without where all is up to
// date: so the table is looked for first.
func find(ctx context.Context, tx transaction, component string) (version int, err error) {
	var there bool
	if _, err := tx.read(ctx, &there, `SELECT to_regclass($1) IS NOT NULL`, schema.Table); err != nil {
		return 0, err
	}
	if !there {
		return 0, tx.exec(ctx, `CREATE TABLE `+schema.Table+` (component text PRIMARY KEY, version integer NOT NULL)`)
	}
	_, err = tx.read(ctx, &version, `SELECT version FROM `+schema.Table+` WHERE component = $1`, component)
	return version, err
}

type ofPGX struct{ pgx.Tx }

func (t ofPGX) exec(ctx context.Context, statement string, args ...any) error {
	_, err := t.Exec(ctx, statement, args...)
	return err
}

func (t ofPGX) read(ctx context.Context, into any, query string, args ...any) (bool, error) {
	err := t.QueryRow(ctx, query, args...).Scan(into)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

type ofSQL struct{ *sql.Tx }

func (t ofSQL) exec(ctx context.Context, statement string, args ...any) error {
	_, err := t.ExecContext(ctx, statement, args...)
	return err
}

func (t ofSQL) read(ctx context.Context, into any, query string, args ...any) (bool, error) {
	err := t.QueryRowContext(ctx, query, args...).Scan(into)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}
