// Command shop is the smallest whole shop on PostgreSQL with database/sql: its orders are in a table of its
// own, and each is closed when it is not paid in time. What has to happen together is one transaction
// (shop.go). It places an order, and another one that it pays, and prints what becomes of them:
//
//	DATABASE_URL=postgres://... go run ./examples/shop
//
// It needs RabbitMQ, Redis and a bridge: eval "$(make -s up)".
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/delaybridge/delaybridge"
	ledger "github.com/delaybridge/delaybridge/consumer/ledger/postgres"
	outbox "github.com/delaybridge/delaybridge/producer/outbox/postgres"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	config, err := delaybridge.FromEnv()
	if err == nil {
		err = run(ctx, config, os.Getenv("DATABASE_URL"), 2*time.Second)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // stop has nothing to do any more
	}
}

func run(ctx context.Context, config delaybridge.Config, databaseURL string, toPay time.Duration) error {
	pool, err := pgxpool.New(ctx, databaseURL)
	if err != nil {
		return err
	}
	defer pool.Close()
	db := stdlib.OpenDBFromPool(pool)
	defer func() { _ = db.Close() }()
	box, marks := outbox.New(pool), ledger.NewSQL(db)
	s := &shop{db: db, outbox: box.SQL(), toPay: toPay}
	if err := box.Migrate(ctx); err != nil {
		return err
	}
	if err := marks.Migrate(ctx); err != nil {
		return err
	}
	if _, err := s.db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, state text NOT NULL)`); err != nil {
		return err
	}
	client, err := delaybridge.New(config)
	if err != nil {
		return err
	}
	if err := client.Consume(delaybridge.ConsumerConfig{
		Queue: "closing", Bind: []string{"order.unpaid"}, Handler: delaybridge.HandlerFunc(s.close), Ledger: marks,
	}); err != nil {
		return err
	}
	if err := client.Relay(box); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- client.Run(running) }()
	err = s.day(ctx)
	stop()
	if ended := <-ended; err == nil {
		err = ended
	}
	return err
}

// day places two orders and pays one of them.
func (s *shop) day(ctx context.Context) error {
	now := time.Now().Format("150405.000")
	paid, unpaid := "paid-"+now, "unpaid-"+now
	for _, id := range []string{paid, unpaid} {
		if err := s.place(ctx, id); err != nil {
			return err
		}
	}
	if err := s.pay(ctx, paid); err != nil {
		return err
	}
	for state := ""; state != "closed"; time.Sleep(100 * time.Millisecond) {
		if err := s.db.QueryRowContext(ctx, `SELECT state FROM orders WHERE id = $1`, unpaid).Scan(&state); err != nil {
			return err
		}
	}
	rows, err := s.db.QueryContext(ctx, `SELECT id, state FROM orders WHERE id IN ($1, $2) ORDER BY id`, paid, unpaid)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id, state string
		if err := rows.Scan(&id, &state); err != nil {
			return err
		}
		fmt.Println(id, "is", state)
	}
	return rows.Err()
}
