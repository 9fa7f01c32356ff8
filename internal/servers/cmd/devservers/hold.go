package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/internal/servers"
)

// bridgeGrace is how long the bridge may take to finish what it has begun.
const bridgeGrace = 30 * time.Second

func newHold() *cobra.Command {
	cmd := &cobra.Command{
		Use:    "hold",
		Short:  "Be the background process of up: own the servers and the bridge until told to end",
		Args:   cobra.NoArgs,
		Hidden: true,
	}
	bridge := cmd.Flags().String("bridge", "", "path of the delaybridge program")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return holdServers(cmd.Context(), *bridge) }
	return cmd
}

// holdServers owns the servers and the bridge. Progress goes to standard
// output, which is closed as soon as all of them work.
func holdServers(ctx context.Context, bridge string) (err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	lock, err := hold()
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if err := os.Remove(inState(addressFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	pair, err := start(ctx, os.Stdout, servers.StartComposed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pair.Stop(context.WithoutCancel(ctx))) }()
	at := addresses{pair.RabbitMQ.AMQPURL(), pair.RabbitMQ.ManagementURL(), pair.Redis.URL()}

	if bridge != "" {
		program, err := startBridge(ctx, bridge, at)
		if err != nil {
			return err
		}
		defer func() {
			if err := program.Stop(bridgeGrace); err != nil {
				fmt.Fprintln(os.Stderr, "bridge:", err)
			}
		}()
	}
	if err := writeAddresses(at); err != nil {
		return err
	}
	if err := os.Stdout.Close(); err != nil {
		return err
	}
	<-ctx.Done()
	return os.Remove(inState(addressFile))
}

// startBridge declares the topology and starts one bridge.
func startBridge(ctx context.Context, path string, at addresses) (*servers.Program, error) {
	environment := append(os.Environ(), at.environment()...)
	apply := exec.CommandContext(ctx, path, "topology", "apply")
	apply.Env = environment
	if output, err := apply.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s topology apply: %w\n%s", path, err, output)
	}
	log, err := os.OpenFile(inState(bridgeLog), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the bridge has its own
	cmd := exec.Command(path, "bridge")
	cmd.Env, cmd.Stdout, cmd.Stderr = environment, log, log
	program, err := servers.Spawn(cmd)
	if err != nil {
		return nil, fmt.Errorf("%s bridge: %w", path, err)
	}
	fmt.Println("topology applied, bridge started; its log:", inState(bridgeLog))
	return program, nil
}
