// Package sqlite keeps orders in an SQLite file, without a server and without
// cgo. Many goroutines, and several processes, may use one file at a time.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"time"

	_ "modernc.org/sqlite" // the database/sql driver

	"github.com/delaybridge/delaybridge/consumer/orders"
)

// busyTimeoutMS is how long a writer waits for another process's transaction.
const busyTimeoutMS = "10000"

// Store keeps orders and stock. Make one with [Open].
type Store struct {
	db  *sql.DB
	now func() time.Time
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
	return &Store{db: db, now: time.Now}, nil
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

// Restock adds n pieces to the stock of sku.
func (s *Store) Restock(ctx context.Context, sku string, n int) error {
	if sku == "" || n < 1 {
		return fmt.Errorf("sqlite: restock %q by %d: name a SKU and at least 1 piece", sku, n)
	}
	return s.write(ctx, "restock", sku, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO stock (sku, available) VALUES (?, ?)
			ON CONFLICT (sku) DO UPDATE SET available = available + excluded.available`, sku, n)
		return err
	})
}

// Place places an order as pending and takes its quantity out of stock, or
// returns an error that wraps orders.ErrOutOfStock. Placing the same order
// again changes nothing; another one with its ID is an orders.ErrConflict. Only
// ID, SKU and Quantity of o are looked at.
func (s *Store) Place(ctx context.Context, o orders.Order) error {
	if err := o.Validate(); err != nil {
		return err
	}
	return s.write(ctx, "place order", o.ID, func(tx *sql.Tx) error {
		switch before, err := find(ctx, tx, o.ID); {
		case err == nil && before.SKU == o.SKU && before.Quantity == o.Quantity:
			return nil
		case err == nil:
			return fmt.Errorf("%w: %d of %q", orders.ErrConflict, before.Quantity, before.SKU)
		case !errors.Is(err, orders.ErrUnknown):
			return err
		}
		taken, err := changed(tx.ExecContext(ctx,
			`UPDATE stock SET available = available - ?1 WHERE sku = ?2 AND available >= ?1`, o.Quantity, o.SKU))
		if err != nil {
			return err
		}
		if !taken {
			return fmt.Errorf("%w: %d of %q", orders.ErrOutOfStock, o.Quantity, o.SKU)
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO orders (id, sku, quantity, state, placed_ms) VALUES (?, ?, ?, ?, ?)`,
			o.ID, o.SKU, o.Quantity, orders.Pending, s.now().UnixMilli())
		return err
	})
}

// Pay pays a pending order. Paying it again changes nothing; a closed one is an
// error that wraps orders.ErrClosed.
func (s *Store) Pay(ctx context.Context, id string) error {
	return s.write(ctx, "pay order", id, func(tx *sql.Tx) error {
		if decided, err := s.decide(ctx, tx, id, orders.Paid); decided || err != nil {
			return err
		}
		o, err := find(ctx, tx, id)
		if err == nil && o.State == orders.Closed {
			return orders.ErrClosed
		}
		return err
	})
}

// Close implements [orders.Store].
func (s *Store) Close(ctx context.Context, id string) (outcome orders.Outcome, err error) {
	err = s.write(ctx, "close order", id, func(tx *sql.Tx) error {
		decided, err := s.decide(ctx, tx, id, orders.Closed)
		if err != nil {
			return err
		}
		o, err := find(ctx, tx, id)
		switch {
		case err != nil:
			return err
		case decided:
			outcome = orders.OutcomeClosed
			_, err = tx.ExecContext(ctx, `UPDATE stock SET available = available + ? WHERE sku = ?`, o.Quantity, o.SKU)
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
func (s *Store) decide(ctx context.Context, tx *sql.Tx, id string, state orders.State) (bool, error) {
	return changed(tx.ExecContext(ctx, `UPDATE orders SET state = ?, decided_ms = ? WHERE id = ? AND state = 'pending'`,
		state, s.now().UnixMilli(), id))
}

func (s *Store) write(ctx context.Context, doing, what string, do func(*sql.Tx) error) error {
	if err := write(ctx, s.db, do); err != nil {
		return fmt.Errorf("%s %q: %w", doing, what, err)
	}
	return nil
}

func changed(result sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}
