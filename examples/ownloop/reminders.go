package main

import (
	"context"
	"database/sql"

	amqp "github.com/rabbitmq/amqp091-go"

	ledger "github.com/delaybridge/delaybridge/consumer/ledger/mysql"
)

// reminders is the table that messages have their effect in, and the ledger beside
// it.
type reminders struct {
	db    *sql.DB
	marks *ledger.Ledger
}

func newReminders(db *sql.DB) *reminders { return &reminders{db: db, marks: ledger.New(db)} }

func (r *reminders) migrate(ctx context.Context) error {
	if err := r.marks.Migrate(ctx); err != nil {
		return err
	}
	_, err := r.db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS reminders (
		id BIGINT AUTO_INCREMENT PRIMARY KEY, message VARBINARY(255) NOT NULL, text BLOB NOT NULL)`)
	return err
}

// write writes the reminder that d is about. The mark is a part of the transaction:
// with it the reminder is committed, or is not.
func (r *reminders) write(ctx context.Context, d *amqp.Delivery) (first bool, err error) {
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	// Another service may keep its marks in the same database: hence the prefix.
	if first, err = r.marks.Mark(ctx, tx, "reminders/"+d.MessageId); err != nil || !first {
		return false, err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO reminders (message, text) VALUES (?, ?)`, d.MessageId, d.Body); err != nil {
		return false, err
	}
	return true, tx.Commit()
}
