package cli

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

// LineReader splits its input into lines, however long they are.
type LineReader struct {
	N int // the number of the line read last, from 1

	r    *bufio.Reader
	over bool // there is no more to read
}

// NewLineReader reads the lines of r.
func NewLineReader(r io.Reader) *LineReader {
	return &LineReader{r: bufio.NewReaderSize(r, 1<<16)}
}

// ErrLineTooLong means that a line is longer than any message.
var ErrLineTooLong = fmt.Errorf("the line is longer than %d bytes", maxLineBytes)

// Next returns the next line that is not blank. After [ErrLineTooLong] the line
// has been skipped; any other error ends the input.
func (l *LineReader) Next() ([]byte, error) {
	for !l.over {
		line, err := l.read()
		if err != nil && !errors.Is(err, ErrLineTooLong) {
			l.over = true
			if !errors.Is(err, io.EOF) {
				l.N++
				return nil, fmt.Errorf("cannot be read: %w", err)
			}
			err = nil // the last line may lack its end
		}
		l.N++
		if text := bytes.TrimSpace(line); len(text) > 0 || err != nil {
			return text, err
		}
	}
	return nil, io.EOF
}

func (l *LineReader) read() ([]byte, error) {
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
			return nil, ErrLineTooLong
		default:
			return line, err
		}
	}
}
