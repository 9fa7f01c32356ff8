// Package sqlite keeps orders in an SQLite file, without a server and without
// cgo. Many goroutines, and several processes, may use one file at a time.
//
// Within a transaction that its context carries, a store takes part in it: behind
// a ledger of consumer/ledger/sqlite on [Store.DB], an order is closed, its stock
// given back and the message marked in one transaction.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"

	_ "modernc.org/sqlite" // the database/sql driver

	"github.com/delaybridge/delaybridge/consumer/orders"
	"github.com/delaybridge/delaybridge/consumer/orders/internal/change"
)

// busyTimeoutMS is how long a writer waits for another process's transaction.
const busyTimeoutMS = "10000"

// Store keeps orders and stock. Make one with [Open].
type Store struct {
	db   *sql.DB
	shop change.Shop
}

// Open opens the file at path and creates it, or brings its schema up to date,
// where that is needed. The caller owes it a Shutdown.
func Open(ctx context.Context, path string) (*Store, error) {
	if path == "" {
		return nil, errors.New("sqlite: the path of the orders file is empty")
	}
	db, err := sql.Open("sqlite", dataSource(path))
	if err != nil {
		return nil, fmt.Errorf("sqlite: %s: %w", path, err)
	}
	// Writers would only wait for each other in SQLite, which polls; database/sql
	// queues them.
	db.SetMaxOpenConns(1)
	if err := migrate(ctx, db); err != nil {
		return nil, errors.Join(fmt.Errorf("sqlite: open %s: %w", path, err), db.Close())
	}
	return &Store{db: db, shop: change.Shop{
		Database: database{db},
		Restocking: `INSERT INTO delaybridge_stock (sku, available) VALUES (?, ?)
			ON CONFLICT (sku) DO UPDATE SET available = available + excluded.available`,
	}}, nil
}

// dataSource names the file and the settings of each connection. FULL, because
// in WAL mode NORMAL would lose the last commits in a power failure, after
// their messages were acknowledged.
func dataSource(path string) string {
	query := url.Values{
		"_txlock": {"immediate"},
		"_pragma": {"busy_timeout(" + busyTimeoutMS + ")", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)"},
	}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + query.Encode()
}

// Shutdown closes the file.
func (s *Store) Shutdown() error { return s.db.Close() }

// DB is the file, for what is to be in one transaction with the orders, such as a
// ledger. It has a single connection, and is closed by Shutdown.
func (s *Store) DB() *sql.DB { return s.db }

// Restock adds n pieces to the stock of sku.
func (s *Store) Restock(ctx context.Context, sku string, n int) error {
	return s.shop.Restock(ctx, sku, n)
}

// Place places an order as pending and takes its quantity out of stock, or
// returns an error that wraps orders.ErrOutOfStock. Placing the same order
// again changes nothing; another one with its ID is an orders.ErrConflict. Only
// ID, SKU and Quantity of o are looked at.
func (s *Store) Place(ctx context.Context, o orders.Order) error { return s.shop.Place(ctx, o) }

// Pay pays a pending order. Paying it again changes nothing; a closed one is an
// error that wraps orders.ErrClosed.
func (s *Store) Pay(ctx context.Context, id string) error { return s.shop.Pay(ctx, id) }

// Close implements [orders.Store].
func (s *Store) Close(ctx context.Context, id string) (orders.Outcome, error) {
	return s.shop.Close(ctx, id)
}

// Order returns one order, or an error that wraps orders.ErrUnknown.
func (s *Store) Order(ctx context.Context, id string) (orders.Order, error) {
	return s.shop.Order(ctx, id)
}

// Orders returns all orders, oldest first.
func (s *Store) Orders(ctx context.Context) ([]orders.Order, error) { return s.shop.Orders(ctx) }

// Stock returns the stock of every SKU.
func (s *Store) Stock(ctx context.Context) ([]orders.Stock, error) { return s.shop.Stock(ctx) }
