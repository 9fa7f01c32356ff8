package shop

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "github.com/go-sql-driver/mysql" // the database/sql driver
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // likewise
	_ "modernc.org/sqlite"             // likewise

	"github.com/delaybridge/delaybridge/consumer/orders"
	mysqlorders "github.com/delaybridge/delaybridge/consumer/orders/mysql"
	"github.com/delaybridge/delaybridge/consumer/orders/postgres"
	"github.com/delaybridge/delaybridge/consumer/orders/sqlite"
)

// The order stores by name.
const (
	SQLite   = "sqlite"
	Postgres = "postgres"
	MySQL    = "mysql"
)

// Stores names the order stores. A run uses all of them at once, and deals the
// orders out, unless it is told otherwise.
func Stores() []string { return []string{SQLite, Postgres, MySQL} }

// StoreAt is where an order store is to be found.
type StoreAt struct {
	Name string // one of Stores
	At   string // a path, URL or DSN
}

// OrderStore is an open order store.
type OrderStore interface {
	orders.Store
	Restock(ctx context.Context, sku string, n int) error
	Place(ctx context.Context, o orders.Order) error
	Pay(ctx context.Context, id string) error
}

// OrderStores are the open order stores of a run, as one.
type OrderStores struct {
	open    []OrderStore
	closers []func() error
}

// OpenOrderStores opens order stores. Only [StoreAt.Furnish] has made what they need.
func OpenOrderStores(ctx context.Context, stores []StoreAt) (*OrderStores, error) {
	s := &OrderStores{}
	for _, at := range stores {
		if err := s.add(ctx, at); err != nil {
			return nil, errors.Join(fmt.Errorf("open %s: %w", at.Name, err), s.Shut())
		}
	}
	return s, nil
}

func (s *OrderStores) add(ctx context.Context, at StoreAt) error {
	switch at.Name {
	case SQLite:
		store, err := sqlite.Open(ctx, at.At)
		if err != nil {
			return err
		}
		s.open, s.closers = append(s.open, store), append(s.closers, store.Shutdown)
	case Postgres:
		pool, err := pgxpool.New(ctx, at.At)
		if err != nil {
			return err
		}
		s.open = append(s.open, postgres.New(pool))
		s.closers = append(s.closers, func() error { pool.Close(); return nil })
	case MySQL:
		db, err := sql.Open("mysql", at.At)
		if err != nil {
			return err
		}
		s.open, s.closers = append(s.open, mysqlorders.New(db)), append(s.closers, db.Close)
	default:
		return fmt.Errorf("no store %q", at.Name)
	}
	return nil
}

// Shut closes the databases.
func (s *OrderStores) Shut() error {
	var errs []error
	for _, closer := range s.closers {
		errs = append(errs, closer())
	}
	return errors.Join(errs...)
}

// Of returns the store that keeps an order.
func (s *OrderStores) Of(id string) OrderStore {
	n, _ := OrderNumber(id)
	return s.open[n%len(s.open)]
}

// Close implements [orders.Store].
func (s *OrderStores) Close(ctx context.Context, id string) (orders.Outcome, error) {
	return s.Of(id).Close(ctx, id)
}

// openSQLite opens a store that is a file.
func (at StoreAt) openSQLite() (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+at.At+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return db, err
}
