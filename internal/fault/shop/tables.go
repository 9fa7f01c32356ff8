package shop

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"
)

const (
	skus = 8 // articles
	// StockEach is how many pieces of each article a store has before anything is ordered.
	StockEach = 1_000_000
)

// Furnish makes a store's tables and fills the stock.
func (at StoreAt) Furnish(ctx context.Context) error {
	if at.Name == MySQL {
		if err := createDatabase(ctx, at.At); err != nil {
			return err
		}
	}
	s, err := OpenOrderStores(ctx, []StoreAt{at})
	if err != nil {
		return err
	}
	store := s.open[0]
	if m, ok := store.(interface{ Migrate(context.Context) error }); ok {
		err = m.Migrate(ctx)
	}
	for n := range skus {
		if err == nil {
			err = store.Restock(ctx, sku(n), StockEach)
		}
	}
	if err = errors.Join(err, s.Shut()); err != nil {
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
	// The database's own account of what happened: no process that closes an order
	// twice can leave this out.
	return at.Query(func(db *sql.DB) error {
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
	return StoreAt{MySQL, config.FormatDSN()}.Query(func(db *sql.DB) error {
		_, err := db.ExecContext(ctx, "CREATE DATABASE `"+name+"`")
		return err
	})
}

// ownTables has each database write down by itself which orders were closed, and has a table
// for mails.
var ownTables = map[string][]string{ //nolint:gochecknoglobals // a constant
	SQLite: {
		`CREATE TABLE closings (id TEXT NOT NULL)`,
		`CREATE TABLE mails (id TEXT NOT NULL)`,
		`CREATE TRIGGER closed AFTER UPDATE OF state ON delaybridge_orders WHEN NEW.state = 'closed'
			BEGIN INSERT INTO closings VALUES (NEW.id); END`,
	},
	Postgres: {
		`CREATE TABLE closings (id text NOT NULL)`,
		`CREATE TABLE mails (id text NOT NULL)`,
		`CREATE FUNCTION note_closing() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN INSERT INTO closings VALUES (NEW.id); RETURN NEW; END $$`,
		`CREATE TRIGGER closed AFTER UPDATE OF state ON delaybridge_orders FOR EACH ROW
			WHEN (NEW.state = 'closed') EXECUTE FUNCTION note_closing()`,
		pythonTable,
	},
	MySQL: {
		`CREATE TABLE closings (id VARBINARY(255) NOT NULL) ENGINE = InnoDB`,
		`CREATE TABLE mails (id VARBINARY(255) NOT NULL) ENGINE = InnoDB`,
		`CREATE TRIGGER closed AFTER UPDATE ON delaybridge_orders FOR EACH ROW
			INSERT INTO closings SELECT NEW.id FROM DUAL WHERE NEW.state = 'closed'`,
	},
}

// pythonTable has PostgreSQL write down by itself which orders of the shop in Python were closed.
const pythonTable = `
	CREATE TABLE shop_orders (id text PRIMARY KEY, state text NOT NULL);
	CREATE TRIGGER closed AFTER UPDATE OF state ON shop_orders FOR EACH ROW
		WHEN (NEW.state = 'closed') EXECUTE FUNCTION note_closing()`

// Query opens a connection for as long as do runs.
func (at StoreAt) Query(do func(*sql.DB) error) error {
	driver, source := at.Name, at.At
	switch at.Name {
	case SQLite:
		source = "file:" + at.At + "?_pragma=busy_timeout(10000)"
	case Postgres:
		driver = "pgx"
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		return err
	}
	return errors.Join(do(db), db.Close())
}

func sku(n int) string { return fmt.Sprintf("sku-%d", n) }
