package main

import (
	"context"
	"database/sql"
	"time"

	"github.com/delaybridge/delaybridge"
	ledger "github.com/delaybridge/delaybridge/consumer/ledger/postgres"
	outbox "github.com/delaybridge/delaybridge/producer/outbox/postgres"
)

// shop has orders in a table of its own: orders (id, state).
type shop struct {
	db     *sql.DB
	outbox outbox.SQL
	toPay  time.Duration // how long a customer has
}

// place places an order, together with the message that will close it.
func (s *shop) place(ctx context.Context, id string) error {
	return s.within(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO orders (id, state) VALUES ($1, 'placed')`, id); err != nil {
			return err
		}
		m := delaybridge.Message{ID: id, RoutingKey: "order.unpaid"}
		return s.outbox.Publish(ctx, tx, m, delaybridge.After(s.toPay))
	})
}

// pay pays an order, and cancels that message.
func (s *shop) pay(ctx context.Context, id string) error {
	return s.within(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `UPDATE orders SET state = 'paid' WHERE id = $1 AND state = 'placed'`, id); err != nil {
			return err
		}
		return s.outbox.Cancel(ctx, tx, id)
	})
}

// close closes an order that is not paid when its message comes. The ledger has begun the transaction, and
// commits it with its mark: a message that comes twice has one effect.
func (s *shop) close(ctx context.Context, m delaybridge.Message) error {
	_, err := ledger.SQLTx(ctx).ExecContext(ctx, `UPDATE orders SET state = 'closed' WHERE id = $1 AND state = 'placed'`, m.ID)
	return err
}

func (s *shop) within(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}
