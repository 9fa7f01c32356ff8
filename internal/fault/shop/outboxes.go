package shop

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	ledgermysql "github.com/delaybridge/delaybridge/consumer/ledger/mysql"
	ledgerpostgres "github.com/delaybridge/delaybridge/consumer/ledger/postgres"
	ledgersqlite "github.com/delaybridge/delaybridge/consumer/ledger/sqlite"
	"github.com/delaybridge/delaybridge/internal/sqltx"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/producer/outbox"
	outboxmysql "github.com/delaybridge/delaybridge/producer/outbox/mysql"
	outboxpostgres "github.com/delaybridge/delaybridge/producer/outbox/postgres"
	outboxsqlite "github.com/delaybridge/delaybridge/producer/outbox/sqlite"
)

// Outboxes are those of the order stores, each in the same database.
type Outboxes struct {
	Boxes   []Outbox // by order store
	closers []func() error
}

// Outbox is the outbox in one database.
type Outbox struct {
	outbox.Store
	migrate func(context.Context) error
	// Within has do work in one transaction, in which the order store takes part by its context.
	Within func(ctx context.Context, do func(context.Context, Rows) error) error
	// HasOurClock says that the database goes by the clock of the process that inserts a row.
	HasOurClock bool
}

// Rows are what can be inserted in a transaction.
type Rows struct {
	Publish func(message.Message, message.When) error
	Cancel  func(id string) error
}

// OpenOutboxes opens the databases of order stores once more.
func OpenOutboxes(ctx context.Context, stores []StoreAt) (*Outboxes, error) {
	all := &Outboxes{}
	for _, at := range stores {
		box, closer, err := at.openOutbox(ctx)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open %s: %w", at.Name, err), all.Shut())
		}
		all.Boxes, all.closers = append(all.Boxes, box), append(all.closers, closer)
	}
	return all, nil
}

func (at StoreAt) openOutbox(ctx context.Context) (Outbox, func() error, error) {
	switch at.Name {
	case SQLite:
		db, err := at.openSQLite()
		if err != nil {
			return Outbox{}, nil, err
		}
		box := outboxsqlite.New(db)
		return Outbox{box, box.Migrate, func(ctx context.Context, do func(context.Context, Rows) error) error {
			return sqltx.Run(ctx, db, nil, func(tx *sql.Tx) error { return do(ledgersqlite.WithTx(ctx, tx), rowsOf(ctx, box, tx)) })
		}, true}, db.Close, nil
	case Postgres:
		pool, err := pgxpool.New(ctx, at.At)
		if err != nil {
			return Outbox{}, nil, err
		}
		box := outboxpostgres.New(pool)
		return Outbox{box, box.Migrate, func(ctx context.Context, do func(context.Context, Rows) error) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return do(ledgerpostgres.WithTx(ctx, tx), rowsOf(ctx, box, tx)) })
		}, false}, func() error { pool.Close(); return nil }, nil
	case MySQL:
		db, err := sql.Open("mysql", at.At)
		if err != nil {
			return Outbox{}, nil, err
		}
		box := outboxmysql.New(db)
		return Outbox{box, box.Migrate, func(ctx context.Context, do func(context.Context, Rows) error) error {
			return sqltx.Run(ctx, db, &sql.TxOptions{Isolation: sql.LevelReadCommitted}, func(tx *sql.Tx) error {
				return do(ledgermysql.WithTx(ctx, tx), rowsOf(ctx, box, tx))
			})
		}, false}, db.Close, nil
	}
	return Outbox{}, nil, fmt.Errorf("no store %q", at.Name)
}

// inserter is an outbox whose transactions are of type T.
type inserter[T any] interface {
	Publish(ctx context.Context, tx T, m message.Message, w message.When) error
	Cancel(ctx context.Context, tx T, id string) error
}

func rowsOf[T any](ctx context.Context, box inserter[T], tx T) Rows {
	return Rows{
		Publish: func(m message.Message, w message.When) error { return box.Publish(ctx, tx, m, w) },
		Cancel:  func(id string) error { return box.Cancel(ctx, tx, id) },
	}
}

// Shut closes the databases.
func (o *Outboxes) Shut() error {
	var errs []error
	for _, closer := range o.closers {
		errs = append(errs, closer())
	}
	return errors.Join(errs...)
}

// Of returns the outbox of an order.
func (o *Outboxes) Of(order string) *Outbox {
	n, _ := OrderNumber(order)
	return &o.Boxes[n%len(o.Boxes)]
}
