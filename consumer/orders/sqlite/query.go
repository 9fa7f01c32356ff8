package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/delaybridge/delaybridge/consumer/orders"
)

const selectOrders = `SELECT id, sku, quantity, state, placed_ms, decided_ms FROM orders `

// Order returns one order, or an error that wraps orders.ErrUnknown.
func (s *Store) Order(ctx context.Context, id string) (orders.Order, error) {
	o, err := find(ctx, s.db, id)
	if err != nil {
		return o, fmt.Errorf("order %q: %w", id, err)
	}
	return o, nil
}

// Orders returns all orders, oldest first.
func (s *Store) Orders(ctx context.Context) ([]orders.Order, error) {
	return all(ctx, s.db, scanOrder, selectOrders+`ORDER BY placed_ms, id`)
}

// Stock returns the stock of every SKU.
func (s *Store) Stock(ctx context.Context) ([]orders.Stock, error) {
	return all(ctx, s.db, func(row scanner) (stock orders.Stock, err error) {
		err = row.Scan(&stock.SKU, &stock.Available)
		return stock, err
	}, `SELECT sku, available FROM stock ORDER BY sku`)
}

type scanner interface{ Scan(columns ...any) error }

type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func find(ctx context.Context, q querier, id string) (orders.Order, error) {
	o, err := scanOrder(q.QueryRowContext(ctx, selectOrders+`WHERE id = ?`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return o, orders.ErrUnknown
	}
	return o, err
}

func scanOrder(row scanner) (orders.Order, error) {
	var o orders.Order
	var placed int64
	var decided sql.NullInt64
	err := row.Scan(&o.ID, &o.SKU, &o.Quantity, &o.State, &placed, &decided)
	o.Placed = time.UnixMilli(placed)
	if decided.Valid {
		o.Decided = time.UnixMilli(decided.Int64)
	}
	return o, err
}

func all[T any](ctx context.Context, db *sql.DB, scan func(scanner) (T, error), query string) ([]T, error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	defer func() { _ = rows.Close() }() // Err has what matters
	var items []T
	for rows.Next() {
		item, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("sqlite: %w", err)
		}
		items = append(items, item)
	}
	return items, rows.Err()
}
