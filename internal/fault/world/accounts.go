package world

import (
	"database/sql"
	"errors"

	"github.com/delaybridge/delaybridge/internal/fault/history"
	"github.com/delaybridge/delaybridge/internal/fault/shop"
)

func (w *World) countOrders(final *history.Final) error {
	var errs []error
	for _, at := range w.shops {
		errs = append(errs, at.Query(func(db *sql.DB) error { return w.countIn(db, at.Name, final) }))
	}
	return errors.Join(errs...)
}

func (w *World) countIn(db *sql.DB, store string, final *history.Final) error {
	rows, err := db.QueryContext(w.ctx, `
		SELECT o.id, sku, quantity, state, coalesce(c.n, 0)
		FROM delaybridge_orders o LEFT JOIN (SELECT id, count(*) AS n FROM closings GROUP BY id) c ON c.id = o.id`)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	taken := map[string]int{}
	for rows.Next() {
		var id, sku string
		var quantity int
		var state history.OrderState
		if err := rows.Scan(&id, &sku, &quantity, &state.State, &state.Closings); err != nil {
			return err
		}
		final.Orders[id] = state
		if n, ok := shop.OrderNumber(id); ok {
			if o := shop.PlanOrder(w.Seed, n); o.Also() != "" {
				final.Orders[history.InQueue(id, o.Also())] = history.OrderState{State: history.StatePending}
			}
		}
		if state.State != "closed" {
			taken[sku] += quantity
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if err := w.countMails(db, final); err != nil {
		return err
	}
	if store == shop.Postgres {
		if err := w.countPython(db, final); err != nil {
			return err
		}
	}
	stock, err := db.QueryContext(w.ctx, `SELECT sku, available FROM delaybridge_stock`)
	if err != nil {
		return err
	}
	defer func() { _ = stock.Close() }()
	for stock.Next() {
		var line history.StockLine
		if err := stock.Scan(&line.SKU, &line.Have); err != nil {
			return err
		}
		line.Want = shop.StockEach - taken[line.SKU]
		line.SKU += " in " + store
		final.Stock = append(final.Stock, line)
	}
	return stock.Err()
}

// countMails notes down which mails were sent, and how often.
func (w *World) countMails(db *sql.DB, final *history.Final) error {
	rows, err := db.QueryContext(w.ctx, `SELECT id, count(*) FROM mails GROUP BY id`)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id string
		sent := history.OrderState{State: history.StateClosed}
		if err := rows.Scan(&id, &sent.Closings); err != nil {
			return err
		}
		final.Orders[history.InQueue(id, shop.MailQueue)] = sent
	}
	return rows.Err()
}

// countPython notes down what became of the orders of the shop in Python.
func (w *World) countPython(db *sql.DB, final *history.Final) error {
	rows, err := db.QueryContext(w.ctx, `
		SELECT id, state, (SELECT count(*) FROM closings c WHERE c.id = o.id) FROM shop_orders o`)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id string
		var state history.OrderState
		if err := rows.Scan(&id, &state.State, &state.Closings); err != nil {
			return err
		}
		final.Orders[id] = state
	}
	return rows.Err()
}
