package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/delaybridge/delaybridge/internal/wire"
)

// maxLineBytes has room for the largest body, written with JSON's escapes.
const maxLineBytes = 4 * wire.MaxBodyBytes

// lineReader splits its input into lines, however long they are.
type lineReader struct {
	r    *bufio.Reader
	n    int  // the number of the line read last
	over bool // there is no more to read
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 1<<16)}
}

var errLineTooLong = fmt.Errorf("the line is longer than %d bytes", maxLineBytes)

// next returns the next line that is not blank. After errLineTooLong the line
// has been skipped; any other error ends the input.
func (l *lineReader) next() ([]byte, error) {
	for !l.over {
		line, err := l.read()
		if err != nil && !errors.Is(err, errLineTooLong) {
			l.over = true
			if !errors.Is(err, io.EOF) {
				l.n++
				return nil, fmt.Errorf("cannot be read: %w", err)
			}
			err = nil // the last line may lack its end
		}
		l.n++
		if text := bytes.TrimSpace(line); len(text) > 0 || err != nil {
			return text, err
		}
	}
	return nil, io.EOF
}

func (l *lineReader) read() ([]byte, error) {
	var line []byte
	for tooLong := false; ; {
		part, err := l.r.ReadSlice('\n')
		if tooLong = tooLong || len(line)+len(part) > maxLineBytes; tooLong {
			line = nil
		} else {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case tooLong && (err == nil || errors.Is(err, io.EOF)):
			return nil, errLineTooLong
		default:
			return line, err
		}
	}
}
