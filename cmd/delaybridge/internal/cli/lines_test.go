package cli

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
)

func TestLinesThatAreTooLong(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxLineBytes+1)
	reader := NewLineReader(strings.NewReader("first\n" + long + "\n\nlast"))
	for _, want := range []struct {
		line string
		n    int
		err  error
	}{{"first", 1, nil}, {"", 2, ErrLineTooLong}, {"last", 4, nil}, {"", 4, io.EOF}, {"", 4, io.EOF}} {
		line, err := reader.Next()
		if string(line) != want.line || !errors.Is(err, want.err) || reader.N != want.n {
			t.Errorf("got %.20q, %v, as line %d; want %+v", line, err, reader.N, want)
		}
	}
	if _, err := NewLineReader(strings.NewReader(long)).Next(); !errors.Is(err, ErrLineTooLong) {
		t.Errorf("without an end: got %v, want ErrLineTooLong", err)
	}
}

func TestInputThatBreaksOff(t *testing.T) {
	t.Parallel()
	broken := io.MultiReader(strings.NewReader("one\n"), iotest.ErrReader(os.ErrPermission))
	reader := NewLineReader(broken)
	if line, err := reader.Next(); string(line) != "one" || err != nil {
		t.Errorf("got %q, %v", line, err)
	}
	if _, err := reader.Next(); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("got %v, want the reader's error", err)
	}
	if _, err := reader.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want the end", err)
	}
}
