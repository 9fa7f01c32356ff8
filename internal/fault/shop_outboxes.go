package fault

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

// outboxes are those of the order stores, each in the same database.
type outboxes struct {
	boxes   []orderBox // by order store
	closers []func() error
}

// orderBox is the outbox in one database.
type orderBox struct {
	outbox.Store
	migrate func(context.Context) error
	// within has do work in one transaction, in which the order store takes part by its context.
	within func(ctx context.Context, do func(context.Context, rows) error) error
	// hasOurClock says that the database goes by the clock of the process that inserts a row.
	hasOurClock bool
}

// rows are what can be inserted in a transaction.
type rows struct {
	publish func(message.Message, message.When) error
	cancel  func(id string) error
}

// openOutboxes opens the databases of order stores once more.
func openOutboxes(ctx context.Context, stores []storeAt) (*outboxes, error) {
	all := &outboxes{}
	for _, at := range stores {
		box, closer, err := at.openOutbox(ctx)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open %s: %w", at.Name, err), all.shut())
		}
		all.boxes, all.closers = append(all.boxes, box), append(all.closers, closer)
	}
	return all, nil
}

func (at storeAt) openOutbox(ctx context.Context) (orderBox, func() error, error) {
	switch at.Name {
	case storeSQLite:
		db, err := at.openSQLite()
		if err != nil {
			return orderBox{}, nil, err
		}
		box := outboxsqlite.New(db)
		return orderBox{box, box.Migrate, func(ctx context.Context, do func(context.Context, rows) error) error {
			return sqltx.Run(ctx, db, nil, func(tx *sql.Tx) error { return do(ledgersqlite.WithTx(ctx, tx), rowsOf(ctx, box, tx)) })
		}, true}, db.Close, nil
	case storePostgres:
		pool, err := pgxpool.New(ctx, at.At)
		if err != nil {
			return orderBox{}, nil, err
		}
		box := outboxpostgres.New(pool)
		return orderBox{box, box.Migrate, func(ctx context.Context, do func(context.Context, rows) error) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return do(ledgerpostgres.WithTx(ctx, tx), rowsOf(ctx, box, tx)) })
		}, false}, func() error { pool.Close(); return nil }, nil
	case storeMySQL:
		db, err := sql.Open("mysql", at.At)
		if err != nil {
			return orderBox{}, nil, err
		}
		box := outboxmysql.New(db)
		return orderBox{box, box.Migrate, func(ctx context.Context, do func(context.Context, rows) error) error {
			return sqltx.Run(ctx, db, &sql.TxOptions{Isolation: sql.LevelReadCommitted}, func(tx *sql.Tx) error {
				return do(ledgermysql.WithTx(ctx, tx), rowsOf(ctx, box, tx))
			})
		}, false}, db.Close, nil
	}
	return orderBox{}, nil, fmt.Errorf("no store %q", at.Name)
}

// inserter is an outbox whose transactions are of type T.
type inserter[T any] interface {
	Publish(ctx context.Context, tx T, m message.Message, w message.When) error
	Cancel(ctx context.Context, tx T, id string) error
}

func rowsOf[T any](ctx context.Context, box inserter[T], tx T) rows {
	return rows{
		publish: func(m message.Message, w message.When) error { return box.Publish(ctx, tx, m, w) },
		cancel:  func(id string) error { return box.Cancel(ctx, tx, id) },
	}
}

// shut closes the databases.
func (o *outboxes) shut() error {
	var errs []error
	for _, closer := range o.closers {
		errs = append(errs, closer())
	}
	return errors.Join(errs...)
}

// of returns the outbox of an order.
func (o *outboxes) of(order string) *orderBox {
	n, _ := orderNumber(order)
	return &o.boxes[n%len(o.boxes)]
}
