package main

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
	reader := newLineReader(strings.NewReader("first\n" + long + "\n\nlast"))
	for _, want := range []struct {
		line string
		n    int
		err  error
	}{{"first", 1, nil}, {"", 2, errLineTooLong}, {"last", 4, nil}, {"", 4, io.EOF}, {"", 4, io.EOF}} {
		line, err := reader.next()
		if string(line) != want.line || !errors.Is(err, want.err) || reader.n != want.n {
			t.Errorf("got %.20q, %v, as line %d; want %+v", line, err, reader.n, want)
		}
	}
	if _, err := newLineReader(strings.NewReader(long)).next(); !errors.Is(err, errLineTooLong) {
		t.Errorf("without an end: got %v, want errLineTooLong", err)
	}
}

func TestInputThatBreaksOff(t *testing.T) {
	t.Parallel()
	broken := io.MultiReader(strings.NewReader("one\n"), iotest.ErrReader(os.ErrPermission))
	reader := newLineReader(broken)
	if line, err := reader.next(); string(line) != "one" || err != nil {
		t.Errorf("got %q, %v", line, err)
	}
	if _, err := reader.next(); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("got %v, want the reader's error", err)
	}
	if _, err := reader.next(); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want the end", err)
	}
}
