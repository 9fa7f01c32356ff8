package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

// Answers come in the order of the IDs, though the first is the last to have one, and no
// more are asked for at a time than may be.
func TestEachIDKeepsTheOrder(t *testing.T) {
	t.Parallel()
	const n = 100
	var input strings.Builder
	var want []string
	for i := range n {
		fmt.Fprintf(&input, "id-%d\n\n", i)
		want = append(want, fmt.Sprintf("id-%d", i))
	}
	a := &app{streams: streams{in: strings.NewReader(input.String())}}
	var begun, others atomic.Int64
	all, over := make(chan struct{}), make(chan struct{})
	ask := func(_ context.Context, id string) (string, error) {
		switch n := begun.Add(1); {
		case n == idsAtOnce:
			close(all)
		case n > idsAtOnce:
			select {
			case <-over:
			default:
				t.Errorf("%s is asked about while %d others are", id, idsAtOnce)
			}
		}
		<-all
		if id == "id-0" { // the last of those that were begun together
			<-over
		} else if others.Add(1) == idsAtOnce-1 {
			close(over)
		}
		return "answer to " + id, nil
	}
	var got []string
	eachID(t.Context(), a, nil, ask, func(id, answer string, err error) bool {
		if answer != "answer to "+id || err != nil {
			t.Errorf("%s: got %q, %v", id, answer, err)
		}
		got = append(got, id)
		return true
	})
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// A line that cannot be read is reported in its place, and the end of the reports ends
// the reading.
func TestEachIDEnds(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is gone")
	read, write := io.Pipe()
	go func() {
		fmt.Fprintln(write, "o-1")
		_ = write.CloseWithError(broken)
	}()
	a := &app{streams: streams{in: read}}
	ask := func(_ context.Context, id string) (string, error) { return id, nil }
	var got []string
	eachID(t.Context(), a, []string{"-"}, ask, func(id, _ string, err error) bool {
		got = append(got, fmt.Sprint(id, " ", err))
		return true
	})
	if want := []string{"o-1 <nil>", " line 2: cannot be read: the disk is gone"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}

	read, write = io.Pipe() // which has one line and no end
	go func() { fmt.Fprintln(write, "o-1") }()
	a.in, got = read, nil
	eachID(t.Context(), a, nil, ask, func(id, _ string, _ error) bool {
		got = append(got, id)
		return false
	})
	if !slices.Equal(got, []string{"o-1"}) {
		t.Errorf("got %q", got)
	}
	_ = write.Close() // for the reader that was left to itself
}

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
		code <- run(ctx, args, streams{in: in, out: out, err: io.Discard}, func(string) (string, bool) { return "", false })
	}()
	fmt.Fprintln(typed, "o-1")
	if lines := bufio.NewScanner(printed); !lines.Scan() || !strings.Contains(lines.Text(), `"id":"o-1","outcome":"recorded"`) {
		t.Errorf("got %q", lines.Text())
	}
	interrupt()
	defer typed.Close()
	if got := <-code; got != exitInterrupted {
		t.Errorf("exit code %d, want %d", got, exitInterrupted)
	}
}

func TestStream(t *testing.T) {
	t.Parallel()
	type one struct {
		N int `json:"n"`
	}
	for _, c := range []struct {
		format, header string
		n              int
		want           string
	}{
		{formatTable, "HEAD", 0, ""},
		{formatTable, "HEAD", 2, "HEAD\nrow 0\nrow 1\n"},
		{formatTable, "", 2, "row 0\n\nrow 1\n"},
		{formatJSON, "HEAD", 0, "[]\n"},
		{formatJSON, "HEAD", 2, "[\n  {\n    \"n\": 0\n  },\n  {\n    \"n\": 1\n  }\n]\n"},
		{formatJSONL, "HEAD", 0, ""},
		{formatJSONL, "HEAD", 2, "{\"n\":0}\n{\"n\":1}\n"},
	} {
		var b strings.Builder
		s := &stream{out: &b, format: c.format, header: c.header}
		for i := range c.n {
			if !s.add(one{i}, fmt.Sprintf("row %d  ", i)) {
				t.Errorf("%s: item %d is refused", c.format, i)
			}
		}
		if err := s.close(); err != nil || b.String() != c.want {
			t.Errorf("%s of %d: got %q, %v; want %q", c.format, c.n, b.String(), err, c.want)
		}
	}
	read, write := io.Pipe()
	_ = read.Close()
	s := &stream{out: write, format: formatJSON}
	for range 2 {
		if s.add(one{}, "") {
			t.Error("what cannot be written goes on")
		}
	}
	if err := s.close(); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v, want ErrClosedPipe", err)
	}
}
