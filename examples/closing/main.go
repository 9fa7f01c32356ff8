// Command closing is a small shop on PostgreSQL: it takes orders over HTTP, and
// closes those that are not paid in time, with the packages of the delay bridge.
//
//	curl -d '{"id":"o-1","sku":"tea","quantity":2}' localhost:8080/orders   # place it
//	curl -X POST localhost:8080/orders/o-1/payment                          # pay it, or
//	curl localhost:8080/orders/o-1                                          # see it closed 30 minutes later
//
// It needs a PostgreSQL database (DATABASE_URL), RabbitMQ (DELAYBRIDGE_AMQP_URL) and
// a bridge, and can run any number of times beside itself.
package main

import (
	"context"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/delaybridge/delaybridge/topology"
)

func main() { os.Exit(run()) }

// run returns the exit code.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := start(ctx, log); err != nil {
		log.Error("the shop is closed", "error", err)
		return 1
	}
	return 0
}

// start serves until ctx ends.
func start(ctx context.Context, log *slog.Logger) error {
	tiers, err := topology.New(topology.Config{})
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "localhost:8080")
	if err != nil {
		return err
	}
	return serve(ctx, config{
		amqpURL:     os.Getenv("DELAYBRIDGE_AMQP_URL"),
		databaseURL: os.Getenv("DATABASE_URL"),
		topology:    tiers,
		listener:    listener,
		payWithin:   30 * time.Minute,
		log:         log,
	})
}
