package fault

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	// also the database/sql driver
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the database/sql driver
	_ "modernc.org/sqlite"             // likewise

	"github.com/delaybridge/delaybridge/consumer/orders"
	mysqlorders "github.com/delaybridge/delaybridge/consumer/orders/mysql"
	"github.com/delaybridge/delaybridge/consumer/orders/postgres"
	"github.com/delaybridge/delaybridge/consumer/orders/sqlite"
)

// The order stores by name.
const (
	storeSQLite   = "sqlite"
	storePostgres = "postgres"
	storeMySQL    = "mysql"
)

// Stores names the order stores. A run uses all of them at once, and deals the
// orders out, unless it is told otherwise.
func Stores() []string { return []string{storeSQLite, storePostgres, storeMySQL} }

// storeAt is where an order store is to be found.
type storeAt struct {
	Name string // one of Stores
	At   string // a path, URL or DSN
}

// shop is an open order store.
type shop interface {
	orders.Store
	Restock(ctx context.Context, sku string, n int) error
	Place(ctx context.Context, o orders.Order) error
	Pay(ctx context.Context, id string) error
}

// shops are the open order stores of a run, as one.
type shops struct {
	open    []shop
	closers []func() error
}

// openShops opens order stores. Only furnish has made what they need.
func openShops(ctx context.Context, stores []storeAt) (*shops, error) {
	s := &shops{}
	for _, at := range stores {
		if err := s.add(ctx, at); err != nil {
			return nil, errors.Join(fmt.Errorf("open %s: %w", at.Name, err), s.shut())
		}
	}
	return s, nil
}

func (s *shops) add(ctx context.Context, at storeAt) error {
	switch at.Name {
	case storeSQLite:
		store, err := sqlite.Open(ctx, at.At)
		if err != nil {
			return err
		}
		s.open, s.closers = append(s.open, store), append(s.closers, store.Shutdown)
	case storePostgres:
		pool, err := pgxpool.New(ctx, at.At)
		if err != nil {
			return err
		}
		s.open = append(s.open, postgres.New(pool))
		s.closers = append(s.closers, func() error { pool.Close(); return nil })
	case storeMySQL:
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

// shut closes the databases.
func (s *shops) shut() error {
	var errs []error
	for _, closer := range s.closers {
		errs = append(errs, closer())
	}
	return errors.Join(errs...)
}

// of returns the store that keeps an order.
func (s *shops) of(id string) shop {
	n, _ := orderNumber(id)
	return s.open[n%len(s.open)]
}

// Close implements [orders.Store].
func (s *shops) Close(ctx context.Context, id string) (orders.Outcome, error) {
	return s.of(id).Close(ctx, id)
}

// openSQLite opens a store that is a file.
func (at storeAt) openSQLite() (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+at.At+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return db, err
}
