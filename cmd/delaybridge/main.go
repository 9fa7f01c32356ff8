//go:build !pages

// Command delaybridge gives plain RabbitMQ exact, durable message delays.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
)

func main() {
	os.Exit(realMain())
}

func realMain() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.LookupEnv)
}
