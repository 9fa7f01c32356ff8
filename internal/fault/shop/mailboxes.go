package shop

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/delaybridge/delaybridge/consumer/ledger"
	ledgermysql "github.com/delaybridge/delaybridge/consumer/ledger/mysql"
	ledgerpostgres "github.com/delaybridge/delaybridge/consumer/ledger/postgres"
	ledgersqlite "github.com/delaybridge/delaybridge/consumer/ledger/sqlite"
)

// Mailboxes are what the consumer of MailQueue writes to: a line for each mail. A second line would
// be a second mail, so a ledger stands before it, in the same database.
type Mailboxes struct {
	boxes   []Mailbox // by order store
	closers []func() error
}

// Mailbox is the part of mailboxes that is in one database.
type Mailbox struct {
	ledger.Ledger
	migrate func(context.Context) error
	// Send writes a line in the transaction of the ledger's.
	Send func(ctx context.Context, order string) error
}

// OpenMailboxes opens the databases of order stores once more.
func OpenMailboxes(ctx context.Context, stores []StoreAt) (*Mailboxes, error) {
	m := &Mailboxes{}
	for _, at := range stores {
		box, closer, err := at.openMailbox(ctx)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open %s: %w", at.Name, err), m.Shut())
		}
		m.boxes, m.closers = append(m.boxes, box), append(m.closers, closer)
	}
	return m, nil
}

func (at StoreAt) openMailbox(ctx context.Context) (Mailbox, func() error, error) {
	switch at.Name {
	case SQLite:
		db, err := at.openSQLite()
		if err != nil {
			return Mailbox{}, nil, err
		}
		l := ledgersqlite.New(db)
		return Mailbox{l, l.Migrate, func(ctx context.Context, order string) error {
			_, err := ledgersqlite.Tx(ctx).ExecContext(ctx, `INSERT INTO mails VALUES (?)`, order)
			return err
		}}, db.Close, nil
	case Postgres:
		pool, err := pgxpool.New(ctx, at.At)
		if err != nil {
			return Mailbox{}, nil, err
		}
		l := ledgerpostgres.New(pool)
		return Mailbox{l, l.Migrate, func(ctx context.Context, order string) error {
			_, err := ledgerpostgres.Tx(ctx).Exec(ctx, `INSERT INTO mails VALUES ($1)`, order)
			return err
		}}, func() error { pool.Close(); return nil }, nil
	case MySQL:
		db, err := sql.Open("mysql", at.At)
		if err != nil {
			return Mailbox{}, nil, err
		}
		l := ledgermysql.New(db)
		return Mailbox{l, l.Migrate, func(ctx context.Context, order string) error {
			_, err := ledgermysql.Tx(ctx).ExecContext(ctx, `INSERT INTO mails VALUES (?)`, order)
			return err
		}}, db.Close, nil
	}
	return Mailbox{}, nil, fmt.Errorf("no store %q", at.Name)
}

// Shut closes the databases.
func (m *Mailboxes) Shut() error {
	var errs []error
	for _, closer := range m.closers {
		errs = append(errs, closer())
	}
	return errors.Join(errs...)
}

// Of returns the mailbox of an order.
func (m *Mailboxes) Of(order string) *Mailbox {
	n, _ := OrderNumber(order)
	return &m.boxes[n%len(m.boxes)]
}
