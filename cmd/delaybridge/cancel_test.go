package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

// Ctrl-C ends a command that waits for its standard input, after the answers to what was
// under way.
func TestCancelInterrupted(t *testing.T) {
	t.Parallel()
	env := servertest.ForTest(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	in, typed := io.Pipe()
	printed, out := io.Pipe()
	code := make(chan int, 1)
	go func() {
		args := []string{"cancel", "-o", "jsonl", "--redis-url", env.RedisURL, "--prefix", env.Prefix}
		code <- run(ctx, args, cli.Streams{In: in, Out: out, Err: io.Discard}, func(string) (string, bool) { return "", false })
	}()
	fmt.Fprintln(typed, "o-1")
	if lines := bufio.NewScanner(printed); !lines.Scan() || !strings.Contains(lines.Text(), `"id":"o-1","outcome":"recorded"`) {
		t.Errorf("got %q", lines.Text())
	}
	interrupt()
	defer typed.Close()
	if got := <-code; got != cli.ExitInterrupted {
		t.Errorf("exit code %d, want %d", got, cli.ExitInterrupted)
	}
}
