// Package sqlbox is what outboxes of database/sql share whose parameters are question marks.
package sqlbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/producer/outbox"
)

// Box is a database's outbox, an [outbox.Store].
type Box struct {
	DB *sql.DB
	// NowMS is the database's clock as an SQL expression, in Unix milliseconds.
	NowMS string
	// Claim sets retry_ms of at most limit rows that are to be sent now, and are the first of
	// their message ID, and returns these rows. All times are Unix milliseconds.
	Claim func(ctx context.Context, now, until int64, limit int) ([]outbox.Row, error)
	// Again reports that a statement had no effect, and may have one when tried again.
	Again func(error) bool
}

// Publish has m published when w says if tx commits; the delay runs from this call, by the
// database's clock. The error wraps [outbox.ErrInvalid] where m could never be published;
// then tx is as it was.
func (b *Box) Publish(ctx context.Context, tx *sql.Tx, m message.Message, w message.When) error {
	r, err := outbox.NewPublish(&m, w)
	return insert(ctx, tx, r, err)
}

// Cancel has the messages of the default entry with an ID cancelled if tx commits.
func (b *Box) Cancel(ctx context.Context, tx *sql.Tx, id string) error {
	r, err := outbox.NewCancel("", id)
	return insert(ctx, tx, r, err)
}

// Reschedule has the messages of the default entry with an ID delivered when w says, if tx
// commits; a delay runs from this call.
func (b *Box) Reschedule(ctx context.Context, tx *sql.Tx, id string, w message.When) error {
	r, err := outbox.NewReschedule("", id, w)
	return insert(ctx, tx, r, err)
}

func insert(ctx context.Context, tx *sql.Tx, r outbox.Row, err error) error {
	if err != nil {
		return err
	}
	body := r.Body
	if body == nil {
		body = []byte{}
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO delaybridge_outbox
		(action, message_id, entry, routing_key, delay_ms, deliver_at_ms, body, headers, properties)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		string(r.Action), r.MessageID, r.Entry, r.RoutingKey, r.DelayMS, r.DeliverAtMS, body, r.Headers, r.Properties); err != nil {
		return fmt.Errorf("outbox: %s %s: %w", r.Action, r.MessageID, err)
	}
	return nil
}

// Columns are those that [Scan] reads.
const Columns = `seq, action, message_id, entry, routing_key, delay_ms, deliver_at_ms, created_ms, body, headers, properties`

// First is the condition of rows that are to be sent by a time in Unix milliseconds, and are
// the first of their message ID.
const First = `o.failed_ms IS NULL AND o.retry_ms <= ? AND NOT EXISTS (
	SELECT 1 FROM delaybridge_outbox e
	WHERE e.message_id = o.message_id AND e.entry = o.entry AND e.seq < o.seq AND e.failed_ms IS NULL)`

func fields(r *outbox.Row) []any {
	return []any{&r.Seq, &r.Action, &r.MessageID, &r.Entry, &r.RoutingKey, &r.DelayMS, &r.DeliverAtMS, &r.CreatedMS, &r.Body, &r.Headers, &r.Properties}
}

// Scan reads all rows.
func Scan(found *sql.Rows) (all []outbox.Row, err error) {
	defer func() { _ = found.Close() }()
	for found.Next() {
		var r outbox.Row
		if err := found.Scan(fields(&r)...); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, found.Err()
}

// lease is for how long Take holds rows. It is longer than the longest timeout of a relay.
const lease = 30 * time.Second

// Take implements [outbox.Store]. It holds no transaction while rows are sent, since others who
// write would wait for it: rows of a process that dies in between are free again after half a
// minute.
func (b *Box) Take(ctx context.Context, limit int, send func(context.Context, []outbox.Row) []outbox.Sent) (n int, err error) {
	var rows []outbox.Row
	err = b.persist(ctx, func() (err error) {
		now := time.Now()
		rows, err = b.Claim(ctx, now.UnixMilli(), now.Add(lease).UnixMilli(), limit)
		return err
	})
	if n = len(rows); err == nil && n > 0 {
		err = b.note(ctx, send(ctx, rows))
	}
	if err != nil {
		return n, fmt.Errorf("outbox: %w", err)
	}
	return n, nil
}

// note writes down what became of rows.
func (b *Box) note(ctx context.Context, all []outbox.Sent) error {
	var done, later, held []any
	now := time.Now()
	for _, s := range all {
		switch {
		case s.Done:
			done = append(done, s.Seq)
		case s.Failed != "":
			if err := b.each(ctx, `UPDATE delaybridge_outbox SET failed_ms = ?, reason = ?`, []any{s.Seq}, now.UnixMilli(), s.Failed); err != nil {
				return err
			}
		case s.Held:
			held = append(held, s.Seq)
		default:
			later = append(later, s.Seq)
		}
	}
	return errors.Join(
		b.each(ctx, `DELETE FROM delaybridge_outbox`, done),
		b.each(ctx, SetRetry, later, now.Add(outbox.RetryPause).UnixMilli()),
		b.each(ctx, SetRetry, held, 0),
	)
}

// SetRetry begins a statement that says when rows are tried again.
const SetRetry = `UPDATE delaybridge_outbox SET retry_ms = ?`

func (b *Box) each(ctx context.Context, statement string, seqs []any, before ...any) error {
	if len(seqs) == 0 {
		return nil
	}
	return b.persist(ctx, func() error {
		_, err := b.DB.ExecContext(ctx, statement+` WHERE seq IN (`+Marks(len(seqs))+`)`, append(before, seqs...)...)
		return err
	})
}

const againPause = 10 * time.Millisecond

// persist tries again what others' work got in the way of.
func (b *Box) persist(ctx context.Context, do func() error) error {
	for {
		err := do()
		if err == nil || !b.Again(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(againPause):
		}
	}
}

// Marks are n question marks.
func Marks(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

// Listen implements [outbox.Store] by asking regularly.
func (b *Box) Listen(ctx context.Context, poll time.Duration, wake func()) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		wake()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Backlog implements [outbox.Store].
func (b *Box) Backlog(ctx context.Context) (found outbox.Backlog, err error) {
	var oldest sql.NullInt64
	err = b.DB.QueryRowContext(ctx, `SELECT COUNT(*), COUNT(failed_ms),
		`+b.NowMS+` - MIN(CASE WHEN failed_ms IS NULL THEN created_ms END) FROM delaybridge_outbox`).
		Scan(&found.Waiting, &found.Failed, &oldest)
	if err != nil {
		return found, fmt.Errorf("outbox: %w", err)
	}
	found.Waiting -= found.Failed
	found.Oldest = max(0, time.Duration(oldest.Int64)*time.Millisecond)
	return found, nil
}

// Failed implements [outbox.Store].
func (b *Box) Failed(ctx context.Context, limit int) ([]outbox.Failed, error) {
	all, err := b.failed(ctx, limit)
	if err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	return all, nil
}

func (b *Box) failed(ctx context.Context, limit int) (all []outbox.Failed, err error) {
	found, err := b.DB.QueryContext(ctx, `SELECT `+Columns+`, failed_ms, reason FROM delaybridge_outbox
		WHERE failed_ms IS NOT NULL ORDER BY seq LIMIT ?`, limit)
	if err != nil {
		return nil, err
	}
	defer func() { _ = found.Close() }()
	for found.Next() {
		var f outbox.Failed
		var at int64
		if err := found.Scan(append(fields(&f.Row), &at, &f.Reason)...); err != nil {
			return nil, err
		}
		f.At = time.UnixMilli(at)
		all = append(all, f)
	}
	return all, found.Err()
}

// Retry implements [outbox.Store].
func (b *Box) Retry(ctx context.Context, seqs ...int64) (int64, error) {
	statement := `UPDATE delaybridge_outbox SET failed_ms = NULL, reason = NULL, retry_ms = 0 WHERE failed_ms IS NOT NULL`
	args := make([]any, len(seqs))
	for i, seq := range seqs {
		args[i] = seq
	}
	if len(seqs) > 0 {
		statement += ` AND seq IN (` + Marks(len(seqs)) + `)` //nolint:gosec // question marks
	}
	result, err := b.DB.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, fmt.Errorf("outbox: %w", err)
	}
	return result.RowsAffected()
}
