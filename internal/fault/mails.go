package fault

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/delaybridge/delaybridge/consumer/ledger"
	ledgermysql "github.com/delaybridge/delaybridge/consumer/ledger/mysql"
	ledgerpostgres "github.com/delaybridge/delaybridge/consumer/ledger/postgres"
	ledgersqlite "github.com/delaybridge/delaybridge/consumer/ledger/sqlite"
	"github.com/delaybridge/delaybridge/internal/fault/history"
	"github.com/delaybridge/delaybridge/message"
)

// mails is what the consumer of mailQueue writes to: a line for each mail. A second line would
// be a second mail, so a ledger stands before it, in the same database.
type mails struct {
	*player
	boxes   []mailbox // by order store
	closers []func() error
}

// mailbox is the part of mails that is in one database.
type mailbox struct {
	ledger.Ledger
	migrate func(context.Context) error
	// send writes a line in the transaction of the ledger's.
	send func(ctx context.Context, order string) error
}

// openMails opens the databases of order stores once more.
func (p *player) openMails(ctx context.Context, stores []storeAt) (*mails, error) {
	m := &mails{player: p}
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

// openSQLite opens a store that is a file.
func (at storeAt) openSQLite() (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+at.At+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return db, err
}

func (m *mails) shut() error {
	var errs []error
	for _, closer := range m.closers {
		errs = append(errs, closer())
	}
	return errors.Join(errs...)
}

// of returns the mailbox of an order.
func (m *mails) of(order string) *mailbox {
	n, _ := orderNumber(order)
	return &m.boxes[n%len(m.boxes)]
}

// Once implements [ledger.Ledger] by that of the order's database, and writes down what came
// of it.
func (m *mails) Once(ctx context.Context, key string, effect func(context.Context) error) (first bool, err error) {
	_, order, _ := strings.Cut(key, "/")
	handled := false
	first, err = m.of(order).Once(ctx, key, func(ctx context.Context) error {
		err := effect(ctx)
		handled = err == nil
		return err
	})
	switch {
	case first && err == nil:
		m.note(history.Event{Kind: history.Effect, Order: m.names(order), Detail: history.EffectClosed})
	case err == nil: // whoever committed it may have been killed before it could say so
		m.note(history.Event{Kind: history.Effect, Order: m.names(order), Detail: history.EffectAlreadyClosed})
	case !first && handled: // and the transaction was not committed
		m.note(history.Event{Kind: history.Failed, Order: m.names(order), Attempt: attemptOf(ctx), Detail: err.Error()})
	}
	return first, err
}

// send is the handler of mailQueue.
func (m *mails) send(ctx context.Context, msg message.Message) error {
	if err := m.of(msg.ID).send(ctx, msg.ID); err != nil {
		return err
	}
	m.step(stepEffect) // before the transaction is committed
	return nil
}

type attemptKey struct{}

// withAttempt lets the ledger know how often a message was handled before.
func withAttempt(ctx context.Context, m *message.Message) context.Context {
	return context.WithValue(ctx, attemptKey{}, m.Journey.Attempts)
}

func attemptOf(ctx context.Context) int {
	n, _ := ctx.Value(attemptKey{}).(int)
	return n
}
