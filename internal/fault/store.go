package fault

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql" // also the database/sql driver
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

// furnish makes a store's tables and fills the stock.
func (at storeAt) furnish(ctx context.Context) error {
	if at.Name == storeMySQL {
		if err := createDatabase(ctx, at.At); err != nil {
			return err
		}
	}
	s, err := openShops(ctx, []storeAt{at})
	if err != nil {
		return err
	}
	store := s.open[0]
	if m, ok := store.(interface{ Migrate(context.Context) error }); ok {
		err = m.Migrate(ctx)
	}
	for n := range skus {
		if err == nil {
			err = store.Restock(ctx, sku(n), stockEach)
		}
	}
	if err = errors.Join(err, s.shut()); err != nil {
		return err
	}
	box, closer, err := at.openMailbox(ctx)
	if err == nil {
		err = errors.Join(box.migrate(ctx), closer())
	}
	if err != nil {
		return err
	}
	rows, closer, err := at.openOutbox(ctx)
	if err == nil {
		err = errors.Join(rows.migrate(ctx), closer())
	}
	if err != nil {
		return err
	}
	// The database's own account of what happened: nobody who closes an order
	// twice can leave this out.
	return at.query(func(db *sql.DB) error {
		for _, statement := range ownTables[at.Name] {
			if _, err := db.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}

func createDatabase(ctx context.Context, dsn string) error {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return err
	}
	name := config.DBName
	config.DBName = ""
	return storeAt{storeMySQL, config.FormatDSN()}.query(func(db *sql.DB) error {
		_, err := db.ExecContext(ctx, "CREATE DATABASE `"+name+"`")
		return err
	})
}

// ownTables has each database write down by itself which orders were closed, and has a table
// for mails.
var ownTables = map[string][]string{ //nolint:gochecknoglobals // a constant
	storeSQLite: {
		`CREATE TABLE closings (id TEXT NOT NULL)`,
		`CREATE TABLE mails (id TEXT NOT NULL)`,
		`CREATE TRIGGER closed AFTER UPDATE OF state ON delaybridge_orders WHEN NEW.state = 'closed'
			BEGIN INSERT INTO closings VALUES (NEW.id); END`,
	},
	storePostgres: {
		`CREATE TABLE closings (id text NOT NULL)`,
		`CREATE TABLE mails (id text NOT NULL)`,
		`CREATE FUNCTION note_closing() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN INSERT INTO closings VALUES (NEW.id); RETURN NEW; END $$`,
		`CREATE TRIGGER closed AFTER UPDATE OF state ON delaybridge_orders FOR EACH ROW
			WHEN (NEW.state = 'closed') EXECUTE FUNCTION note_closing()`,
		pythonTable,
	},
	storeMySQL: {
		`CREATE TABLE closings (id VARBINARY(255) NOT NULL) ENGINE = InnoDB`,
		`CREATE TABLE mails (id VARBINARY(255) NOT NULL) ENGINE = InnoDB`,
		`CREATE TRIGGER closed AFTER UPDATE ON delaybridge_orders FOR EACH ROW
			INSERT INTO closings SELECT NEW.id FROM DUAL WHERE NEW.state = 'closed'`,
	},
}

// query opens a connection of the injector's own.
func (at storeAt) query(do func(*sql.DB) error) error {
	driver, source := at.Name, at.At
	switch at.Name {
	case storeSQLite:
		source = "file:" + at.At + "?_pragma=busy_timeout(10000)"
	case storePostgres:
		driver = "pgx"
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		return err
	}
	return errors.Join(do(db), db.Close())
}

func sku(n int) string { return fmt.Sprintf("sku-%d", n) }
