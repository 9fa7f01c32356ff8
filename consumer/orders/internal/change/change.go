// Package change says in SQL what happens to an order, once for all databases.
package change

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/delaybridge/delaybridge/consumer/orders"
)

// Querier is a database or a transaction. The parameters of its statements are
// question marks.
type Querier interface {
	// Exec returns how many rows were changed.
	Exec(ctx context.Context, statement string, args ...any) (changed int64, err error)
	// Each calls row for each row.
	Each(ctx context.Context, row func(scan func(columns ...any) error) error, statement string, args ...any) error
}

// Database is what keeps the orders.
type Database interface {
	// Read returns what to read by, within the transaction that ctx carries if there
	// is one.
	Read(ctx context.Context) Querier
	// Write runs do in a transaction: one of its own, or a part of the one that ctx
	// carries. It may call do more than once, if nothing came of it before.
	Write(ctx context.Context, do func(Querier) error) error
}

// Shop is a database with orders and stock in it.
type Shop struct {
	Database
	// Restocking is the statement that adds ? of SKU ? to a stock, in this order: SKU,
	// pieces.
	Restocking string
	// Locking ends a SELECT that reads what is in force, rather than what was when the
	// transaction began, and keeps it so.
	Locking string
}

// Restock adds n pieces to the stock of sku.
func (s *Shop) Restock(ctx context.Context, sku string, n int) error {
	if sku == "" || n < 1 {
		return fmt.Errorf("orders: restock %q by %d: name a SKU and at least 1 piece", sku, n)
	}
	return s.write(ctx, "restock", sku, func(q Querier) error {
		_, err := q.Exec(ctx, s.Restocking, sku, n)
		return err
	})
}

// Place places an order as pending and takes its quantity out of stock.
func (s *Shop) Place(ctx context.Context, o orders.Order) error {
	if err := o.Validate(); err != nil {
		return err
	}
	return s.write(ctx, "place order", o.ID, func(q Querier) error {
		switch before, err := find(ctx, q, o.ID, ""); {
		case err == nil && before.SKU == o.SKU && before.Quantity == o.Quantity:
			return nil
		case err == nil:
			return fmt.Errorf("%w: %d of %q", orders.ErrConflict, before.Quantity, before.SKU)
		case !errors.Is(err, orders.ErrUnknown):
			return err
		}
		taken, err := q.Exec(ctx, `UPDATE delaybridge_stock SET available = available - ? WHERE sku = ? AND available >= ?`, o.Quantity, o.SKU, o.Quantity)
		if err != nil {
			return err
		}
		if taken == 0 {
			return fmt.Errorf("%w: %d of %q", orders.ErrOutOfStock, o.Quantity, o.SKU)
		}
		_, err = q.Exec(ctx, `INSERT INTO delaybridge_orders (id, sku, quantity, state, placed_ms) VALUES (?, ?, ?, ?, ?)`,
			o.ID, o.SKU, o.Quantity, string(orders.Pending), time.Now().UnixMilli())
		return err
	})
}

// Pay pays a pending order.
func (s *Shop) Pay(ctx context.Context, id string) error {
	return s.write(ctx, "pay order", id, func(q Querier) error {
		if decided, err := decide(ctx, q, id, orders.Paid); decided || err != nil {
			return err
		}
		o, err := find(ctx, q, id, s.Locking)
		if err == nil && o.State == orders.Closed {
			return orders.ErrClosed
		}
		return err
	})
}

// Close closes a pending order and gives its stock back.
func (s *Shop) Close(ctx context.Context, id string) (outcome orders.Outcome, err error) {
	err = s.write(ctx, "close order", id, func(q Querier) error {
		decided, err := decide(ctx, q, id, orders.Closed)
		if err != nil {
			return err
		}
		o, err := find(ctx, q, id, s.Locking)
		switch {
		case err != nil:
			return err
		case decided:
			outcome = orders.OutcomeClosed
			_, err = q.Exec(ctx, `UPDATE delaybridge_stock SET available = available + ? WHERE sku = ?`, o.Quantity, o.SKU)
			return err
		case o.State == orders.Paid:
			outcome = orders.OutcomePaid
		default:
			outcome = orders.OutcomeAlreadyClosed
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return outcome, nil
}

// decide moves a pending order to its final state, and returns whether it was
// pending.
func decide(ctx context.Context, q Querier, id string, state orders.State) (bool, error) {
	n, err := q.Exec(ctx, `UPDATE delaybridge_orders SET state = ?, decided_ms = ? WHERE id = ? AND state = 'pending'`,
		string(state), time.Now().UnixMilli(), id)
	return n > 0, err
}

func (s *Shop) write(ctx context.Context, doing, what string, do func(Querier) error) error {
	if err := s.Write(ctx, do); err != nil {
		return fmt.Errorf("%s %q: %w", doing, what, err)
	}
	return nil
}
