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
	"github.com/delaybridge/delaybridge/internal/servers/databases"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

func newRun() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run -- COMMAND [ARGUMENT...]",
		Short: "Run a command, such as go test, with servers of its own",
		Args:  cobra.MinimumNArgs(1),
	}
	databases := cmd.Flags().Bool("databases", false, "start PostgreSQL and MariaDB, too; without it each test binary that needs one starts its own")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), args, *databases) }
	return cmd
}

// run starts a pair, and databases where they are wanted, runs the command and
// stops them. A command that fails is an *exec.ExitError.
func run(ctx context.Context, command []string, withDatabases bool) (err error) {
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
	if withDatabases {
		d, failed := databases.Start(ctx)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, d.Stop(context.WithoutCancel(ctx))) }()
		cmd.Env = append(cmd.Env,
			servertest.PostgreSQLVariable+"="+d.PostgreSQL.URL(),
			servertest.MariaDBVariable+"="+d.MariaDB.DSN(),
		)
	}
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
