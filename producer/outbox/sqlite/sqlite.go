// Package sqlite keeps an outbox in an SQLite file: rows of the table delaybridge_outbox are
// inserted in the user's own transaction. Relays ask for them regularly. It brings no driver:
// any one for database/sql will do, with SQLite 3.35 or later.
//
//	box := sqlite.New(db)
//	err := box.Migrate(ctx)
//	...
//	err = box.Publish(ctx, tx, m, message.After(30*time.Minute)) // an *sql.Tx
package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"

	"github.com/delaybridge/delaybridge/internal/schema"
	"github.com/delaybridge/delaybridge/internal/sqltx"
	"github.com/delaybridge/delaybridge/producer/outbox"
	"github.com/delaybridge/delaybridge/producer/outbox/internal/sqlbox"
)

//go:embed migrations
var migrations embed.FS

const nowMS = `CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER)`

// Outbox is an [outbox.Store].
type Outbox struct{ sqlbox.Box }

// New returns the outbox of a file, whose table [Outbox.Migrate] makes. It does no I/O, and db
// remains the caller's. Set a busy timeout, and synchronous to FULL, or a power failure may
// take the last commits with it.
func New(db *sql.DB) *Outbox {
	return &Outbox{sqlbox.Box{DB: db, NowMS: nowMS, Claim: claimer(db), Again: sqltx.SQLiteBusy}}
}

// Migrate makes the outbox's table, or brings it up to date. It may be called at every start,
// by any number of processes at once.
func (o *Outbox) Migrate(ctx context.Context) error {
	if err := schema.SQLite(ctx, o.DB, "outbox", migrations); err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	return nil
}

// claimer is sqlbox.Box.Claim.
func claimer(db *sql.DB) func(ctx context.Context, now, until int64, limit int) ([]outbox.Row, error) {
	return func(ctx context.Context, now, until int64, limit int) ([]outbox.Row, error) {
		var some bool // looking takes no lock
		if err := db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM delaybridge_outbox WHERE failed_ms IS NULL AND retry_ms <= ?)`,
			now).Scan(&some); err != nil || !some {
			return nil, err
		}
		const query = sqlbox.SetRetry + ` WHERE seq IN
			(SELECT seq FROM delaybridge_outbox o WHERE ` + sqlbox.First + ` ORDER BY seq LIMIT ?) RETURNING ` + sqlbox.Columns
		found, err := db.QueryContext(ctx, query, until, now, limit) //nolint:rowserrcheck // Scan does
		if err != nil {
			return nil, err
		}
		return sqlbox.Scan(found)
	}
}
