// Command ownloop is a service that has an amqp091 consumer of its own, and keeps
// it: of the delay bridge it takes the ledger alone. It writes a reminder into
// MariaDB or MySQL for each message that falls due, once, however often the message
// comes. What cannot be handled ends in the quarantine (delaybridge quarantine list).
//
// It needs a database (DATABASE_DSN, as github.com/go-sql-driver/mysql reads it),
// RabbitMQ (DELAYBRIDGE_AMQP_URL) and the topology that a bridge puts in place.
package main

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "github.com/go-sql-driver/mysql" // the database/sql driver
)

func main() { os.Exit(run()) }

// run returns the exit code.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := start(ctx, log); err != nil {
		log.Error("no reminders any more", "error", err)
		return 1
	}
	return 0
}

// start consumes until ctx ends.
func start(ctx context.Context, log *slog.Logger) (err error) {
	db, err := sql.Open("mysql", os.Getenv("DATABASE_DSN"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	reminders := newReminders(db)
	if err := reminders.migrate(ctx); err != nil {
		return err
	}
	return (&loop{
		url:        os.Getenv("DELAYBRIDGE_AMQP_URL"),
		exchange:   "delaybridge.ready",
		quarantine: "delaybridge.quarantine",
		handle:     reminders.write,
		ping:       db.PingContext,
		pause:      time.Second,
		log:        log,
	}).run(ctx)
}
