// Package printable escapes text that a stranger may have chosen, such as a message's ID, a
// routing key or an error. What comes out of it neither acts on a terminal, nor hides, nor
// looks like more than one line or column.
package printable

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text is s with all that is not printable written as \u202e. That is what [unicode.IsPrint]
// is false for: controls, line breaks and tabs among them, marks that change the direction of
// writing, and spaces other than the usual one. A byte that is no UTF-8 is written as \x9b.
func Text(s string) string {
	if utf8.ValidString(s) && strings.IndexFunc(s, unprintable) < 0 {
		return s
	}
	escaped := make([]byte, 0, 2*len(s))
	for text := []byte(s); len(text) > 0; {
		r, size := utf8.DecodeRune(text)
		if r == utf8.RuneError && size == 1 {
			escaped = fmt.Appendf(escaped, `\x%02x`, text[0])
		} else {
			escaped = appendRune(escaped, r)
		}
		text = text[size:]
	}
	return string(escaped)
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// appendRune appends r as it is, or escaped as JSON does it: within JSON it means the same.
func appendRune(to []byte, r rune) []byte {
	switch {
	case unicode.IsPrint(r):
		return utf8.AppendRune(to, r)
	case r > 0xFFFF:
		high, low := utf16.EncodeRune(r)
		return fmt.Appendf(to, `\u%04x\u%04x`, high, low)
	}
	return fmt.Appendf(to, `\u%04x`, r)
}

// Error is [Text] for an error. It keeps the line breaks between errors that [errors.Join]
// has put together. Others, which libraries indent, become semicolons.
func Error(err error) string {
	var parts []error
	switch tree := err.(type) { //nolint:errorlint // it takes the tree apart itself
	case interface{ Unwrap() error }:
		parts = []error{tree.Unwrap()}
	case interface{ Unwrap() []error }:
		parts = tree.Unwrap()
	}
	rest, joined := err.Error(), isJoined(err.Error(), parts)
	var text strings.Builder
	for i, part := range parts {
		if part == nil {
			continue
		}
		before, after, found := strings.Cut(rest, part.Error())
		switch {
		case !found:
			continue
		case joined && i > 0:
			text.WriteByte('\n')
		default:
			text.WriteString(line(before))
		}
		text.WriteString(Error(part))
		rest = after
	}
	return text.String() + line(rest)
}

// line puts a part of an error on one line.
func line(s string) string {
	return Text(strings.NewReplacer("\n\t", "; ", "\n", "; ").Replace(s))
}

// isJoined reports whether text is that of several errors, one a line.
func isJoined(text string, parts []error) bool {
	lines := make([]string, len(parts))
	for i, part := range parts {
		lines[i] = fmt.Sprint(part)
	}
	return len(parts) > 1 && text == strings.Join(lines, "\n")
}

// Writer passes on what is printable, line breaks and tabs, and escapes all else as [Text]
// does, so that JSON stays JSON of the same values. For that reason a byte that is no UTF-8
// becomes \ufffd, as in encoding/json. It may be used by several goroutines.
type Writer struct {
	mu   sync.Mutex
	to   io.Writer
	held []byte // the beginning of a rune
}

// NewWriter returns a Writer that writes to to.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Raw is what it writes to, for those who draw on a terminal and escape what they did not
// choose themselves.
func (w *Writer) Raw() io.Writer { return w.to }

// Write implements [io.Writer] with one write for each call. It keeps the beginning of a rune
// until the next call brings the rest.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.held) == 0 && !slices.ContainsFunc(p, func(b byte) bool { return b >= utf8.RuneSelf || !passes(rune(b)) }) {
		return w.to.Write(p)
	}
	held := len(w.held)
	text := slices.Concat(w.held, p)
	complete := len(text)
	for cut := max(0, len(text)-utf8.UTFMax+1); cut < len(text); cut++ {
		if utf8.RuneStart(text[cut]) && !utf8.FullRune(text[cut:]) {
			complete = cut
			break
		}
	}
	w.held = slices.Clone(text[complete:])
	escaped, _ := escape(text[:complete], -1)
	if len(escaped) == 0 {
		return len(p), nil
	}
	written, err := w.to.Write(escaped)
	if err == nil {
		return len(p), nil
	}
	w.held = nil
	_, n := escape(text[:complete], written)
	return max(0, n-held), err
}

// Flush writes what it holds of a rune that is not complete.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	escaped, _ := escape(w.held, -1)
	w.held = nil
	if len(escaped) == 0 {
		return nil
	}
	_, err := w.to.Write(escaped)
	return err
}

func passes(r rune) bool { return r == '\n' || r == '\t' || unicode.IsPrint(r) }

// escape returns what becomes of text, and how many bytes of text that took. It ends with what
// has room in most bytes, unless that is negative.
func escape(text []byte, most int) (escaped []byte, n int) {
	escaped = make([]byte, 0, len(text)+len(text)/8)
	for n < len(text) {
		r, size := utf8.DecodeRune(text[n:])
		before := len(escaped)
		switch {
		case r == utf8.RuneError && size == 1:
			escaped = append(escaped, `\ufffd`...)
		case passes(r):
			escaped = append(escaped, text[n:n+size]...)
		default:
			escaped = appendRune(escaped, r)
		}
		if most >= 0 && len(escaped) > most {
			return escaped[:before], n
		}
		n += size
	}
	return escaped, n
}
