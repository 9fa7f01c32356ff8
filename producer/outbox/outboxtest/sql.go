package outboxtest

import (
	"context"
	"database/sql"

	"github.com/delaybridge/delaybridge/message"
)

// SQLBox inserts rows in transactions of database/sql.
type SQLBox interface {
	Publish(ctx context.Context, tx *sql.Tx, m message.Message, w message.When) error
	Cancel(ctx context.Context, tx *sql.Tx, id string) error
	Reschedule(ctx context.Context, tx *sql.Tx, id string, w message.When) error
}

// BeginSQL is Subject.Begin of database/sql.
func BeginSQL(db *sql.DB, box SQLBox) func(context.Context) (Tx, error) {
	return func(ctx context.Context) (Tx, error) {
		tx, err := db.BeginTx(ctx, nil)
		return sqlTx{tx, box}, err
	}
}

type sqlTx struct {
	tx  *sql.Tx
	box SQLBox
}

func (t sqlTx) Publish(ctx context.Context, m message.Message, w message.When) error {
	return t.box.Publish(ctx, t.tx, m, w)
}

func (t sqlTx) Cancel(ctx context.Context, id string) error { return t.box.Cancel(ctx, t.tx, id) }

func (t sqlTx) Reschedule(ctx context.Context, id string, w message.When) error {
	return t.box.Reschedule(ctx, t.tx, id, w)
}

func (t sqlTx) Exec(ctx context.Context, statement string) error {
	_, err := t.tx.ExecContext(ctx, statement)
	return err
}

func (t sqlTx) End(commit bool) error {
	if commit {
		return t.tx.Commit()
	}
	return t.tx.Rollback()
}
