package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// Waiting for another process, which bounds its own waits.
const (
	settleTimeout  = 10 * time.Minute // may install packages
	settleInterval = 100 * time.Millisecond
)

func newUp() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start servers in the background and print their addresses as shell exports",
		Args:  cobra.NoArgs,
	}
	bridge := cmd.Flags().String("bridge", "", "path of the delaybridge program: apply its topology and run its bridge")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return up(cmd.Context(), *bridge, cmd.OutOrStdout())
	}
	return cmd
}

func newDown() *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop what up has started and remove its data",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return down(cmd.Context()) },
	}
}

// up starts a holder unless one runs, and prints where its servers answer.
func up(ctx context.Context, bridge string, out io.Writer) error {
	if err := makeStateDir(); err != nil {
		return err
	}
	pid, err := holder()
	if err != nil {
		return err
	}
	if pid == 0 {
		if err := startHolder(bridge); err != nil {
			return err
		}
	}
	var at addresses
	err = await(ctx, func() (bool, error) {
		found, err := readAddresses()
		if err == nil {
			at = found
			return true, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		if pid, err := holder(); err != nil || pid != 0 {
			return false, err
		}
		log, _ := os.ReadFile(inState(holderLog)) // best effort: it may never have come that far
		return false, fmt.Errorf("the servers did not start:\n%s", log)
	})
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, at.exports())
	return err
}

// startHolder starts the background process, and shows its progress until it
// is ready or has failed.
func startHolder(bridge string) error {
	if bridge != "" {
		path, err := filepath.Abs(bridge)
		if err != nil {
			return err
		}
		bridge = path
	}
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.Create(inState(holderLog))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the holder has its own
	cmd := exec.Command(executable, "hold", "--bridge", bridge)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	progress, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if _, err := io.Copy(os.Stderr, progress); err != nil {
		return err
	}
	return cmd.Process.Release()
}

// down ends the holder, which takes everything with it.
func down(ctx context.Context) error {
	pid, err := holder()
	if err != nil {
		return err
	}
	if pid == 0 {
		fmt.Fprintln(os.Stderr, "nothing runs")
		return os.RemoveAll(stateDir)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("end process %d: %w", pid, err)
	}
	err = await(ctx, func() (bool, error) {
		pid, err := holder()
		return pid == 0, err
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "stopped, data removed")
	return os.RemoveAll(stateDir)
}

// await asks until the answer is yes or an error.
func await(ctx context.Context, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	ticker := time.NewTicker(settleInterval)
	defer ticker.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}
