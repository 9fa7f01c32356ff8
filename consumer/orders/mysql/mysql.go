// Package mysql keeps orders in MariaDB or MySQL. Many goroutines and processes may
// use one database at a time.
//
// Within a transaction that its context carries, a store takes part in it: behind
// a ledger of consumer/ledger/mysql, an order is closed, its stock given back and
// the message marked in one transaction.
package mysql

import (
	"context"
	"database/sql"
	"embed"
	"fmt"

	"github.com/delaybridge/delaybridge/consumer/orders"
	"github.com/delaybridge/delaybridge/consumer/orders/internal/change"
	"github.com/delaybridge/delaybridge/internal/schema"
)

//go:embed migrations
var migrations embed.FS

// Store is an [orders.Store]. It keeps orders in the table orders, and stock in the
// table stock. Make one with [New].
type Store struct {
	db   *sql.DB
	shop change.Shop
}

// New returns the store of a database, whose tables [Store.Migrate] makes. It does
// no I/O, and db, of github.com/go-sql-driver/mysql, remains the caller's.
func New(db *sql.DB) *Store {
	return &Store{db: db, shop: change.Shop{
		Database: database{db},
		Restocking: `INSERT INTO delaybridge_stock (sku, available) VALUES (?, ?)
			ON DUPLICATE KEY UPDATE available = available + VALUES(available)`,
		Locking: ` FOR UPDATE`,
	}}
}

// Migrate makes the store's tables, or brings them up to date. It may be called at
// every start, by any number of processes at once; where nothing is to be done its
// user needs no right to create tables.
func (s *Store) Migrate(ctx context.Context) error {
	if err := schema.MySQL(ctx, s.db, "orders", migrations); err != nil {
		return fmt.Errorf("orders: %w", err)
	}
	return nil
}

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
