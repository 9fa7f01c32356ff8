package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

// child is the program as a process of its own.
type child struct {
	*exec.Cmd
	input  io.WriteCloser
	output *bufio.Scanner // lines of standard output
	said   bytes.Buffer   // standard error, once it has ended
}

func startChild(t *testing.T, vars map[string]string, args ...string) *child {
	t.Helper()
	c := &child{Cmd: command(t, vars, args...)}
	c.Stderr = &c.said
	var err error
	if c.input, err = c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	output, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.output = bufio.NewScanner(output)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

func command(t *testing.T, vars map[string]string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(program(t), "delaybridge"), args...)
	cmd.Env = os.Environ()
	for name, value := range vars {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd
}

func applyTopology(t *testing.T, vars map[string]string) {
	t.Helper()
	if output, err := command(t, vars, "topology", "apply").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
}

func (c *child) ends(t *testing.T, code int) {
	t.Helper()
	_ = c.Wait()
	if got := c.ProcessState.ExitCode(); got != code {
		t.Errorf("exit code %d, want %d; it said:\n%.3000s", got, code, &c.said)
	}
}

// TestInterruptedPublish interrupts a publish whose input is still open.
func TestInterruptedPublish(t *testing.T) {
	t.Parallel()
	vars := scriptEnv(t)
	applyTopology(t, vars)
	c := startChild(t, vars, "publish", "--file", "-", "-o", "jsonl")
	if _, err := io.WriteString(c.input, `{"id":"a","key":"k","in":"1s"}`+"\n"+`{"id":"b","key":"k"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b"} {
		if !c.output.Scan() || !strings.Contains(c.output.Text(), `"id":"`+id+`"`) {
			t.Errorf("got %s, want the receipt of %s", c.output.Text(), id)
		}
	}
	if err := c.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	c.ends(t, cli.ExitInterrupted)
	for _, want := range []string{"2 of 2 messages published", "interrupted: nothing after line 2 was published"} {
		if !strings.Contains(c.said.String(), want) {
			t.Errorf("standard error %q does not say %q", &c.said, want)
		}
	}
}

// TestInterruptedWhileWaiting interrupts a publish that has no connection.
func TestInterruptedWhileWaiting(t *testing.T) {
	t.Parallel()
	cmd := command(t, map[string]string{beDelaybridge: "1"},
		"publish", "--id", "o-1", "--key", "k", "--amqp-url", "amqp://127.0.0.1:1", "--connect-timeout", "10m", "--timeout", "10m")
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	if !lines.Scan() { // the first attempt has failed
		t.Fatal("it says nothing")
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	last := ""
	for lines.Scan() {
		last = lines.Text()
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != cli.ExitInterrupted || !strings.Contains(last, "publish o-1: not sent: ") {
		t.Errorf("exit code %d, last words %q", code, last)
	}
}

// TestServerDiesUnderPublish kills the broker in the middle of a file. Each line
// has a receipt or is reported by its number.
func TestServerDiesUnderPublish(t *testing.T) {
	t.Parallel()
	server := servertest.RabbitMQForTest(t)
	vars := scriptEnv(t)
	vars["DELAYBRIDGE_AMQP_URL"] = server.AMQPURL()
	applyTopology(t, vars)
	// A file, so that the program never waits for its input, with nothing in flight.
	const lines = 200_000
	file := filepath.Join(t.TempDir(), "many.jsonl")
	var text strings.Builder
	for i := range lines {
		fmt.Fprintf(&text, `{"id":"%d","key":"k","in":"30s"}`+"\n", i+1)
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	c := startChild(t, vars, "publish", "--untracked", "--file", file, "-o", "jsonl", "--in-flight", "100", "--connect-timeout", "1s")
	killed := make(chan error, 1)
	var read atomic.Int64
	for c.output.Scan() {
		if read.Add(1) == 500 {
			// While the broker stands still no line is confirmed. Once its output has been read,
			// which may take long, the program sends as much as may be in flight.
			go func() {
				err := server.Pause(t.Context())
				tick := time.NewTicker(100 * time.Millisecond)
				defer tick.Stop()
				for last, same := read.Load(), 0; same < 20; same++ {
					<-tick.C
					if now := read.Load(); now != last {
						last, same = now, 0
					}
				}
				killed <- errors.Join(err, server.Kill(t.Context()))
			}()
		}
	}
	confirmed := int(read.Load())
	c.ends(t, cli.ExitUnreachable)
	if confirmed < 500 {
		t.Fatalf("only %d lines were confirmed:\n%.3000s", confirmed, &c.said)
	}
	if err := <-killed; err != nil {
		t.Fatal(err)
	}
	reported, last := 0, 0
	for line := range strings.Lines(c.said.String()) {
		if _, err := fmt.Sscanf(line, "line %d:", new(int)); err == nil &&
			(strings.Contains(line, "unconfirmed: ") || strings.Contains(line, "not sent: ")) {
			reported++
		}
		_, _ = fmt.Sscanf(line, "stopped: nothing after line %d was published", &last)
	}
	if reported == 0 || confirmed+reported != last {
		t.Errorf("%d lines confirmed and %d reported, of %d:\n%.3000s", confirmed, reported, last, &c.said)
	}
}
