// Package mysql keeps an outbox in MariaDB (from 10.6) or MySQL (from 8.0): rows of the table
// delaybridge_outbox are inserted in the user's own transaction. Relays ask for them regularly.
//
//	box := mysql.New(db)
//	err := box.Migrate(ctx)
//	...
//	err = box.Publish(ctx, tx, m, message.After(30*time.Minute)) // an *sql.Tx
package mysql

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"slices"

	"github.com/go-sql-driver/mysql"

	"github.com/delaybridge/delaybridge/internal/schema"
	"github.com/delaybridge/delaybridge/internal/sqltx"
	"github.com/delaybridge/delaybridge/producer/outbox"
	"github.com/delaybridge/delaybridge/producer/outbox/internal/sqlbox"
)

//go:embed migrations
var migrations embed.FS

// Outbox is an [outbox.Store].
type Outbox struct{ sqlbox.Box }

// New returns the outbox of a database, whose table [Outbox.Migrate] makes. It does no I/O.
// The data source must name a database, and db remains the caller's.
func New(db *sql.DB) *Outbox {
	return &Outbox{sqlbox.Box{
		DB: db, NowMS: `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000`,
		Claim: claimer(db), Again: isDeadlock,
	}}
}

// Migrate makes the outbox's table, or brings it up to date. It may be called at every start,
// by any number of processes at once; where nothing is to be done its user needs no right to
// create tables.
func (o *Outbox) Migrate(ctx context.Context) error {
	if err := schema.MySQL(ctx, o.DB, "outbox", migrations); err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	return nil
}

// isDeadlock reports that InnoDB has rolled back a transaction for another one's sake.
func isDeadlock(err error) bool {
	refusal, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && refusal.Number == 1213 // ER_LOCK_DEADLOCK
}

// claimer is sqlbox.Box.Claim.
func claimer(db *sql.DB) func(ctx context.Context, now, until int64, limit int) ([]outbox.Row, error) {
	return func(ctx context.Context, now, until int64, limit int) (rows []outbox.Row, err error) {
		// Each statement sees what is committed by then, and inserting rows waits for no gap.
		err = sqltx.Run(ctx, db, &sql.TxOptions{Isolation: sql.LevelReadCommitted}, func(tx *sql.Tx) error {
			if rows, err = next(ctx, tx, now, limit); err != nil || len(rows) == 0 {
				return err
			}
			args := []any{until}
			for _, r := range rows {
				args = append(args, r.Seq)
			}
			_, err := tx.ExecContext(ctx, sqlbox.SetRetry+` WHERE seq IN (`+sqlbox.Marks(len(rows))+`)`, args...)
			return err
		})
		return rows, err
	}
}

// next locks rows that are the first of their message ID.
func next(ctx context.Context, tx *sql.Tx, now int64, limit int) ([]outbox.Row, error) {
	const query = `SELECT ` + sqlbox.Columns + ` FROM delaybridge_outbox o FORCE INDEX (PRIMARY)
		WHERE ` + sqlbox.First + ` ORDER BY seq LIMIT ? FOR UPDATE SKIP LOCKED`
	found, err := tx.QueryContext(ctx, query, now, limit) //nolint:rowserrcheck // Scan does
	if err != nil {
		return nil, err
	}
	rows, err := sqlbox.Scan(found)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	first, err := firsts(ctx, tx, rows)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(rows, func(r outbox.Row) bool { return first[id{r.MessageID, r.Entry}] != r.Seq }), nil
}

type id struct{ message, entry string }

// firsts returns the first row of each message ID. Rows are locked as they are now, while the
// rows before them were looked for as of the beginning of that statement: one that was
// committed in between was not seen.
func firsts(ctx context.Context, tx *sql.Tx, rows []outbox.Row) (map[id]int64, error) {
	ids := make([]any, len(rows))
	for i, r := range rows {
		ids[i] = r.MessageID
	}
	//nolint:gosec // question marks
	query := `SELECT message_id, entry, MIN(seq) FROM delaybridge_outbox
		WHERE message_id IN (` + sqlbox.Marks(len(ids)) + `) AND failed_ms IS NULL GROUP BY message_id, entry`
	found, err := tx.QueryContext(ctx, query, ids...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = found.Close() }()
	first := make(map[id]int64, len(rows))
	for found.Next() {
		var one id
		var seq int64
		if err := found.Scan(&one.message, &one.entry, &seq); err != nil {
			return nil, err
		}
		first[one] = seq
	}
	return first, found.Err()
}
