package waiting

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
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
	a := &cli.App{Streams: cli.Streams{In: strings.NewReader(input.String())}}
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
	a := &cli.App{Streams: cli.Streams{In: read}}
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
	a.In, got = read, nil
	eachID(t.Context(), a, nil, ask, func(id, _ string, _ error) bool {
		got = append(got, id)
		return false
	})
	if !slices.Equal(got, []string{"o-1"}) {
		t.Errorf("got %q", got)
	}
	_ = write.Close() // for the reader that was left to itself
}
