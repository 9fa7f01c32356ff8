package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/delaybridge/delaybridge/internal/printable"
)

// Output formats of -o.
const (
	formatTable = "table"
	formatJSON  = "json"
	formatJSONL = "jsonl"
)

// outputFlag adds -o to cmd, for the given formats, the first of which is the
// default. The value is checked before the command runs.
func outputFlag(cmd *cobra.Command, formats ...string) *string {
	format := cmd.Flags().StringP("output", "o", formats[0], "output format: "+strings.Join(formats, ", "))
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if !slices.Contains(formats, *format) {
			return usage(fmt.Errorf("--output %q: use %s", *format, strings.Join(formats, ", ")))
		}
		return nil
	}
	return format
}

// bodyOf returns a body as JSON has it: as text where it is UTF-8, and otherwise as bytes.
func bodyOf(body []byte) (text *string, other []byte) {
	if whole := string(body); utf8.ValidString(whole) {
		return &whole, nil
	}
	return nil, body
}

// stream writes items in the given format as they come, however many.
type stream struct {
	out    io.Writer
	format string
	header string // of a table; without one there is a blank line between two items
	n      int
	err    error // the first
}

// add writes one item, of which row is the line in a table. It returns false when there
// is no point in going on.
func (s *stream) add(item any, row string) bool {
	if s.err != nil {
		return false
	}
	var text []byte
	switch s.format {
	case formatTable:
		if s.n == 0 && s.header != "" || s.n > 0 && s.header == "" {
			text = append([]byte(s.header), '\n')
		}
		text = append(append(text, strings.TrimRight(row, " \n")...), '\n')
	case formatJSON:
		text, s.err = json.MarshalIndent(item, "  ", "  ")
		begin := ",\n  "
		if s.n == 0 {
			begin = "[\n  "
		}
		text = append([]byte(begin), text...)
	default:
		text, s.err = json.Marshal(item)
		text = append(text, '\n')
	}
	if s.err == nil {
		_, s.err = s.out.Write(text)
	}
	s.n++
	return s.err == nil
}

// close writes what is left, and returns the first error of writing.
func (s *stream) close() error {
	if s.err == nil && s.format == formatJSON {
		end := "\n]\n"
		if s.n == 0 {
			end = "[]\n"
		}
		_, s.err = io.WriteString(s.out, end)
	}
	if s.err != nil {
		return fmt.Errorf("standard output: %w", s.err)
	}
	return nil
}

// printJSON writes one value, for people to read, too.
func printJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// emit writes items in the given format. row gives an item's cells under header.
func emit[T any](w io.Writer, format string, items []T, header []string, row func(T) []string) error {
	switch format {
	case formatJSON:
		if items == nil {
			items = []T{} // [], not null
		}
		return printJSON(w, items)
	case formatJSONL:
		encoder := json.NewEncoder(w)
		for _, item := range items {
			if err := encoder.Encode(item); err != nil {
				return err
			}
		}
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, strings.Join(header, "\t"))
	for _, item := range items {
		cells := row(item)
		for i, cell := range cells {
			cells[i] = printable.Text(cell)
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	return table.Flush()
}

// raw is what w writes to in the end, for what draws on a terminal. That has to escape by
// itself what strangers chose.
func raw(w io.Writer) io.Writer {
	if p, ok := w.(*printable.Writer); ok {
		return p.Raw()
	}
	return w
}

// isTerminal reports whether a person looks at, or types into, one of the streams.
func isTerminal(stream any) bool {
	if w, ok := stream.(io.Writer); ok {
		stream = raw(w)
	}
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
