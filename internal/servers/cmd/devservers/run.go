package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

func newRun() *cobra.Command {
	return &cobra.Command{
		Use:   "run -- COMMAND [ARGUMENT...]",
		Short: "Run a command, such as go test, with servers of its own",
		Args:  cobra.MinimumNArgs(1),
		RunE:  func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), args) },
	}
}

// run starts a pair, runs the command and stops the pair. A command that fails
// is an *exec.ExitError.
func run(ctx context.Context, command []string) (err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	pair, err := start(ctx, os.Stderr, servers.Start)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pair.Stop(context.WithoutCancel(ctx))) }()

	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(),
		servertest.AMQPVariable+"="+pair.RabbitMQ.AMQPURL(),
		servertest.ManagementVariable+"="+pair.RabbitMQ.ManagementURL(),
		servertest.RedisVariable+"="+pair.Redis.URL(),
	)
	// Ctrl-C reaches the command by itself; what else ends us is passed on.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	return cmd.Run()
}

// start starts a pair and says on log how long that took.
func start(ctx context.Context, log *os.File,
	start func(context.Context, servers.Config) (*servers.Pair, error),
) (*servers.Pair, error) {
	began := time.Now()
	_, _ = fmt.Fprintln(log, "starting RabbitMQ and Redis")
	pair, err := start(ctx, servers.Config{})
	if err != nil {
		return nil, err
	}
	_, _ = fmt.Fprintf(log, "RabbitMQ and Redis (%s) answer after %.1f s\n", pair.Choice, time.Since(began).Seconds())
	return pair, nil
}
