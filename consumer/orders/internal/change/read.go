package change

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/delaybridge/delaybridge/consumer/orders"
)

const selectOrders = `SELECT id, sku, quantity, state, placed_ms, decided_ms FROM delaybridge_orders `

// Order returns one order, or an error that wraps orders.ErrUnknown.
func (s *Shop) Order(ctx context.Context, id string) (orders.Order, error) {
	o, err := find(ctx, s.Read(ctx), id, "")
	if err != nil {
		return o, fmt.Errorf("order %q: %w", id, err)
	}
	return o, nil
}

// Orders returns all orders, oldest first.
func (s *Shop) Orders(ctx context.Context) ([]orders.Order, error) {
	return all(ctx, s.Read(ctx), scanOrder, selectOrders+`ORDER BY placed_ms, id`)
}

// Stock returns the stock of every SKU.
func (s *Shop) Stock(ctx context.Context) ([]orders.Stock, error) {
	return all(ctx, s.Read(ctx), func(scan func(...any) error) (stock orders.Stock, err error) {
		err = scan(&stock.SKU, &stock.Available)
		return stock, err
	}, `SELECT sku, available FROM delaybridge_stock ORDER BY sku`)
}

// find returns the order with an ID. locking ends the statement.
func find(ctx context.Context, q Querier, id, locking string) (orders.Order, error) {
	found, err := all(ctx, q, scanOrder, selectOrders+`WHERE id = ?`+locking, id)
	if err != nil {
		return orders.Order{}, err
	}
	if len(found) == 0 {
		return orders.Order{}, orders.ErrUnknown
	}
	return found[0], nil
}

func scanOrder(scan func(...any) error) (orders.Order, error) {
	var o orders.Order
	var state string
	var placed int64
	var decided sql.NullInt64
	err := scan(&o.ID, &o.SKU, &o.Quantity, &state, &placed, &decided)
	o.State, o.Placed = orders.State(state), time.UnixMilli(placed)
	if decided.Valid {
		o.Decided = time.UnixMilli(decided.Int64)
	}
	return o, err
}

func all[T any](ctx context.Context, q Querier, read func(scan func(...any) error) (T, error), statement string, args ...any) ([]T, error) {
	var items []T
	err := q.Each(ctx, func(scan func(...any) error) error {
		item, err := read(scan)
		items = append(items, item)
		return err
	}, statement, args...)
	return items, err
}
