package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

// TestInterruptedPublish interrupts a publish whose input is still open.
func TestInterruptedPublish(t *testing.T) {
	t.Parallel()
	bin, vars := program(t), scriptEnv(t)
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "delaybridge"), args...)
		cmd.Env = os.Environ()
		for name, value := range vars {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		return cmd
	}
	if output, err := command("topology", "apply").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	cmd := command("publish", "--file", "-", "-o", "jsonl")
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(input, `{"id":"a","key":"k","in":"1s"}`+"\n"+`{"id":"b","key":"k"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	receipts := bufio.NewScanner(output)
	for _, id := range []string{"a", "b"} {
		if !receipts.Scan() || !strings.Contains(receipts.Text(), `"id":"`+id+`"`) {
			t.Errorf("got %s, want the receipt of %s", receipts.Text(), id)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("exit code %d, want %d", code, exitInterrupted)
	}
	for _, want := range []string{"2 of 2 messages published", "interrupted: nothing after line 2 was published"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("standard error %q does not say %q", &said, want)
		}
	}
}

// TestInterruptedWhileWaiting interrupts a publish that has no connection.
func TestInterruptedWhileWaiting(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), filepath.Join(program(t), "delaybridge"),
		"publish", "--id", "o-1", "--key", "k", "--amqp-url", "amqp://127.0.0.1:1", "--connect-timeout", "10m", "--timeout", "10m")
	cmd.Env = append(os.Environ(), beDelaybridge+"=1")
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
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("exit code %d, want %d", code, exitInterrupted)
	}
	if !strings.Contains(last, "publish o-1: not sent: ") {
		t.Errorf("its last words are %q", last)
	}
}

// TestServerDiesUnderPublish kills the broker in the middle of a file. Each line
// is either confirmed, and then delivered, or reported by its number.
func TestServerDiesUnderPublish(t *testing.T) {
	t.Parallel()
	server := servertest.RabbitMQForTest(t)
	bin, vars := program(t), scriptEnv(t)
	vars["DELAYBRIDGE_AMQP_URL"] = server.AMQPURL()
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "delaybridge"), args...)
		cmd.Env = os.Environ()
		for name, value := range vars {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		return cmd
	}
	if output, err := command("topology", "apply").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	cmd := command("publish", "--file", "-", "-o", "jsonl", "--in-flight", "100", "--connect-timeout", "1s")
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer input.Close()
		for i := 1; ; i++ {
			if _, err := fmt.Fprintf(input, `{"id":"%d","key":"k","in":"30s"}`+"\n", i); err != nil {
				return // it has ended
			}
		}
	}()
	confirmed := 0
	for receipts := bufio.NewScanner(output); receipts.Scan(); {
		if confirmed++; confirmed == 500 {
			if err := server.Kill(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitUnreachable {
		t.Errorf("exit code %d, want %d", code, exitUnreachable)
	}
	reported, last := 0, 0
	for line := range strings.Lines(said.String()) {
		if strings.Contains(line, "unconfirmed: ") || strings.Contains(line, "not sent: ") {
			if _, err := fmt.Sscanf(line, "line %d:", new(int)); err == nil {
				reported++
			}
		}
		_, _ = fmt.Sscanf(line, "stopped: nothing after line %d was published", &last)
	}
	if reported == 0 || confirmed+reported != last {
		t.Errorf("%d lines confirmed and %d reported, of %d:\n%.3000s", confirmed, reported, last, &said)
	}
}

func TestLinesThatAreTooLong(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxLineBytes+1)
	reader := newLineReader(strings.NewReader("first\n" + long + "\n\nlast"))
	for _, want := range []struct {
		line string
		n    int
		err  error
	}{{"first", 1, nil}, {"", 2, errLineTooLong}, {"last", 4, nil}, {"", 4, io.EOF}, {"", 4, io.EOF}} {
		line, err := reader.next()
		if string(line) != want.line || err != want.err || reader.n != want.n {
			t.Errorf("got %.20q, %v, as line %d; want %+v", line, err, reader.n, want)
		}
	}
	if _, err := newLineReader(strings.NewReader(long)).next(); err != errLineTooLong {
		t.Errorf("without an end: got %v, want errLineTooLong", err)
	}
}

func TestInputThatBreaksOff(t *testing.T) {
	t.Parallel()
	broken := io.MultiReader(strings.NewReader("one\n"), iotestErrReader{})
	reader := newLineReader(broken)
	if line, err := reader.next(); string(line) != "one" || err != nil {
		t.Errorf("got %q, %v", line, err)
	}
	if _, err := reader.next(); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("got %v, want the reader's error", err)
	}
	if _, err := reader.next(); err != io.EOF {
		t.Errorf("got %v, want the end", err)
	}
}

type iotestErrReader struct{}

func (iotestErrReader) Read([]byte) (int, error) { return 0, os.ErrPermission }

func FuzzPublishLine(f *testing.F) {
	for _, seed := range []string{
		`{"id":"a","key":"k","in":"1s","body":{"x":[1]},"headers":{"a":{"b":[null,1.5]}}}`,
		`{"id":"a","key":"k","at":"2030-01-01T08:00:00Z","body_base64":"AAE="}`, `null`, `[`, `{"headers":{"":1e999}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var p publication
		if p.parse(line) != nil {
			return
		}
		if err := p.message.Validate(); err != nil {
			t.Errorf("parsed %q into what is not valid: %v", line, err)
		}
		if err := p.when.Validate(time.Now()); err != nil {
			t.Errorf("parsed %q into what is not valid: %v", line, err)
		}
	})
}
