// Package postgres keeps an outbox in PostgreSQL: rows of the table delaybridge_outbox are
// inserted in the user's own transaction, and a relay is woken by NOTIFY when it commits.
//
//	box := postgres.New(pool)
//	err := box.Migrate(ctx)
//	...
//	err = box.Publish(ctx, tx, m, message.After(30*time.Minute)) // a pgx.Tx
//	err = box.SQL().Publish(ctx, tx, m, message.After(30*time.Minute)) // an *sql.Tx
package postgres

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/delaybridge/delaybridge/internal/schema/pgschema"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/producer/outbox"
)

//go:embed migrations
var migrations embed.FS

// Outbox is an [outbox.Store].
type Outbox struct{ pool *pgxpool.Pool }

// New returns the outbox of a database, whose table [Outbox.Migrate] makes. It does no I/O.
// The pool remains the caller's. A relay takes a connection for each of its workers, and one
// that listens; who only inserts rows may give nil.
func New(pool *pgxpool.Pool) *Outbox { return &Outbox{pool} }

// Migrate makes the outbox's table, or brings it up to date. It may be called at every start,
// by any number of processes at once; where nothing is to be done its user needs no right to
// create tables.
func (o *Outbox) Migrate(ctx context.Context) error {
	if err := pgschema.Apply(ctx, o.pool, "outbox", migrations); err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	return nil
}

const insert = `INSERT INTO delaybridge_outbox
	(action, message_id, entry, routing_key, delay_ms, deliver_at_ms, body, headers, properties)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`

func values(r *outbox.Row) []any {
	body := r.Body
	if body == nil {
		body = []byte{}
	}
	return []any{string(r.Action), r.MessageID, r.Entry, r.RoutingKey, r.DelayMS, r.DeliverAtMS, body, r.Headers, r.Properties}
}

// Publish has m published when w says if tx commits; the delay runs from this call, by the
// database's clock. The error wraps [outbox.ErrInvalid] where m could never be published;
// then tx is as it was.
func (o *Outbox) Publish(ctx context.Context, tx pgx.Tx, m message.Message, w message.When) error {
	r, err := outbox.NewPublish(&m, w)
	return insertWith(ctx, tx, r, err)
}

// Cancel has the messages of the default entry with an ID cancelled if tx commits.
func (o *Outbox) Cancel(ctx context.Context, tx pgx.Tx, id string) error {
	r, err := outbox.NewCancel("", id)
	return insertWith(ctx, tx, r, err)
}

// Reschedule has the messages of the default entry with an ID delivered when w says, if tx
// commits; a delay runs from this call.
func (o *Outbox) Reschedule(ctx context.Context, tx pgx.Tx, id string, w message.When) error {
	r, err := outbox.NewReschedule("", id, w)
	return insertWith(ctx, tx, r, err)
}

func insertWith(ctx context.Context, tx pgx.Tx, r outbox.Row, err error) error {
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, insert, values(&r)...); err != nil {
		return fmt.Errorf("outbox: %s %s: %w", r.Action, r.MessageID, err)
	}
	return nil
}

// SQL is the outbox for transactions of database/sql: lib/pq, pgx/stdlib, and what is built
// upon them.
type SQL struct{}

// SQL returns the outbox for transactions of database/sql.
func (o *Outbox) SQL() SQL { return SQL{} }

// Publish is [Outbox.Publish].
func (SQL) Publish(ctx context.Context, tx *sql.Tx, m message.Message, w message.When) error {
	r, err := outbox.NewPublish(&m, w)
	return insertSQL(ctx, tx, r, err)
}

// Cancel is [Outbox.Cancel].
func (SQL) Cancel(ctx context.Context, tx *sql.Tx, id string) error {
	r, err := outbox.NewCancel("", id)
	return insertSQL(ctx, tx, r, err)
}

// Reschedule is [Outbox.Reschedule].
func (SQL) Reschedule(ctx context.Context, tx *sql.Tx, id string, w message.When) error {
	r, err := outbox.NewReschedule("", id, w)
	return insertSQL(ctx, tx, r, err)
}

func insertSQL(ctx context.Context, tx *sql.Tx, r outbox.Row, err error) error {
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, insert, values(&r)...); err != nil {
		return fmt.Errorf("outbox: %s %s: %w", r.Action, r.MessageID, err)
	}
	return nil
}

const columns = `seq, action, message_id, entry, routing_key, delay_ms, deliver_at_ms, created_ms, body, headers::text, properties::text`

// next are rows that are the first of their message ID. One that a row before it holds back
// is not among them until that one has gone, however the two were locked: which rows there are
// is seen at one instant.
const next = `SELECT ` + columns + ` FROM delaybridge_outbox o
	WHERE failed_ms IS NULL AND retry_ms <= $2 AND NOT EXISTS (
		SELECT FROM delaybridge_outbox e
		WHERE e.message_id = o.message_id AND e.entry = o.entry AND e.seq < o.seq AND e.failed_ms IS NULL)
	ORDER BY seq LIMIT $1 FOR UPDATE SKIP LOCKED`

func scan(row pgx.CollectableRow) (r outbox.Row, err error) {
	err = row.Scan(&r.Seq, &r.Action, &r.MessageID, &r.Entry, &r.RoutingKey, &r.DelayMS, &r.DeliverAtMS, &r.CreatedMS,
		&r.Body, &r.Headers, &r.Properties)
	return r, err
}

// Take implements [outbox.Store], in one transaction.
func (o *Outbox) Take(ctx context.Context, limit int, send func(context.Context, []outbox.Row) []outbox.Sent) (n int, err error) {
	err = pgx.BeginFunc(ctx, o.pool, func(tx pgx.Tx) error {
		found, err := tx.Query(ctx, next, limit, time.Now().UnixMilli())
		if err != nil {
			return err
		}
		rows, err := pgx.CollectRows(found, scan)
		if err != nil || len(rows) == 0 {
			return err
		}
		n = len(rows)
		return note(ctx, tx, send(ctx, rows))
	})
	if err != nil {
		return n, fmt.Errorf("outbox: %w", err)
	}
	return n, nil
}

// note writes down what became of rows.
func note(ctx context.Context, tx pgx.Tx, all []outbox.Sent) error {
	var done, later []int64
	now := time.Now()
	for _, s := range all {
		switch {
		case s.Done:
			done = append(done, s.Seq)
		case s.Failed != "":
			if _, err := tx.Exec(ctx, `UPDATE delaybridge_outbox SET failed_ms = $2, reason = $3 WHERE seq = $1`,
				s.Seq, now.UnixMilli(), s.Failed); err != nil {
				return err
			}
		case !s.Held:
			later = append(later, s.Seq)
		}
	}
	if _, err := tx.Exec(ctx, `DELETE FROM delaybridge_outbox WHERE seq = ANY($1)`, done); err != nil {
		return err
	}
	if len(later) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `UPDATE delaybridge_outbox SET retry_ms = $2 WHERE seq = ANY($1)`, later, now.Add(outbox.RetryPause).UnixMilli())
	return err
}

// Listen implements [outbox.Store]: PostgreSQL tells of rows by NOTIFY. Rows whose pause is
// over are looked for as often as that pause.
func (o *Outbox) Listen(ctx context.Context, _ time.Duration, wake func()) error {
	pooled, err := o.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	conn := pooled.Hijack() // one that listens is of no use to others
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, `LISTEN delaybridge_outbox`); err != nil {
		return err
	}
	for {
		wake()
		waiting, cancel := context.WithTimeout(ctx, outbox.RetryPause)
		_, err := conn.WaitForNotification(waiting)
		over := waiting.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !over:
			return err
		}
	}
}

// Backlog implements [outbox.Store].
func (o *Outbox) Backlog(ctx context.Context) (b outbox.Backlog, err error) {
	var oldest *int64
	err = o.pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE failed_ms IS NULL), count(*) FILTER (WHERE failed_ms IS NOT NULL),
		(extract(epoch FROM clock_timestamp()) * 1000)::bigint - min(created_ms) FILTER (WHERE failed_ms IS NULL)
		FROM delaybridge_outbox`).Scan(&b.Waiting, &b.Failed, &oldest)
	if err != nil {
		return b, fmt.Errorf("outbox: %w", err)
	}
	if oldest != nil {
		b.Oldest = max(0, time.Duration(*oldest)*time.Millisecond)
	}
	return b, nil
}

// Failed implements [outbox.Store].
func (o *Outbox) Failed(ctx context.Context, limit int) ([]outbox.Failed, error) {
	found, err := o.pool.Query(ctx, `SELECT `+columns+`, failed_ms, reason FROM delaybridge_outbox
		WHERE failed_ms IS NOT NULL ORDER BY seq LIMIT $1`, limit)
	if err == nil {
		var all []outbox.Failed
		all, err = pgx.CollectRows(found, func(row pgx.CollectableRow) (f outbox.Failed, err error) {
			var at int64
			r := &f.Row
			err = row.Scan(&r.Seq, &r.Action, &r.MessageID, &r.Entry, &r.RoutingKey, &r.DelayMS, &r.DeliverAtMS, &r.CreatedMS,
				&r.Body, &r.Headers, &r.Properties, &at, &f.Reason)
			f.At = time.UnixMilli(at)
			return f, err
		})
		if err == nil {
			return all, nil
		}
	}
	return nil, fmt.Errorf("outbox: %w", err)
}

// Retry implements [outbox.Store].
func (o *Outbox) Retry(ctx context.Context, seqs ...int64) (int64, error) {
	tag, err := o.pool.Exec(ctx, `UPDATE delaybridge_outbox SET failed_ms = NULL, reason = NULL, retry_ms = 0
		WHERE failed_ms IS NOT NULL AND ($1::bigint[] IS NULL OR seq = ANY($1))`, seqs)
	if err != nil {
		return 0, fmt.Errorf("outbox: %w", err)
	}
	return tag.RowsAffected(), nil
}
