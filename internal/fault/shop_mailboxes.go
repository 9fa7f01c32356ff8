package fault

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

// mailboxes are what the consumer of mailQueue writes to: a line for each mail. A second line would
// be a second mail, so a ledger stands before it, in the same database.
type mailboxes struct {
	boxes   []mailbox // by order store
	closers []func() error
}

// mailbox is the part of mailboxes that is in one database.
type mailbox struct {
	ledger.Ledger
	migrate func(context.Context) error
	// send writes a line in the transaction of the ledger's.
	send func(ctx context.Context, order string) error
}

// openMailboxes opens the databases of order stores once more.
func openMailboxes(ctx context.Context, stores []storeAt) (*mailboxes, error) {
	m := &mailboxes{}
	for _, at := range stores {
		box, closer, err := at.openMailbox(ctx)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open %s: %w", at.Name, err), m.shut())
		}
		m.boxes, m.closers = append(m.boxes, box), append(m.closers, closer)
	}
	return m, nil
}

func (at storeAt) openMailbox(ctx context.Context) (mailbox, func() error, error) {
	switch at.Name {
	case storeSQLite:
		db, err := at.openSQLite()
		if err != nil {
			return mailbox{}, nil, err
		}
		l := ledgersqlite.New(db)
		return mailbox{l, l.Migrate, func(ctx context.Context, order string) error {
			_, err := ledgersqlite.Tx(ctx).ExecContext(ctx, `INSERT INTO mails VALUES (?)`, order)
			return err
		}}, db.Close, nil
	case storePostgres:
		pool, err := pgxpool.New(ctx, at.At)
		if err != nil {
			return mailbox{}, nil, err
		}
		l := ledgerpostgres.New(pool)
		return mailbox{l, l.Migrate, func(ctx context.Context, order string) error {
			_, err := ledgerpostgres.Tx(ctx).Exec(ctx, `INSERT INTO mails VALUES ($1)`, order)
			return err
		}}, func() error { pool.Close(); return nil }, nil
	case storeMySQL:
		db, err := sql.Open("mysql", at.At)
		if err != nil {
			return mailbox{}, nil, err
		}
		l := ledgermysql.New(db)
		return mailbox{l, l.Migrate, func(ctx context.Context, order string) error {
			_, err := ledgermysql.Tx(ctx).ExecContext(ctx, `INSERT INTO mails VALUES (?)`, order)
			return err
		}}, db.Close, nil
	}
	return mailbox{}, nil, fmt.Errorf("no store %q", at.Name)
}

// shut closes the databases.
func (m *mailboxes) shut() error {
	var errs []error
	for _, closer := range m.closers {
		errs = append(errs, closer())
	}
	return errors.Join(errs...)
}

// of returns the mailbox of an order.
func (m *mailboxes) of(order string) *mailbox {
	n, _ := orderNumber(order)
	return &m.boxes[n%len(m.boxes)]
}
