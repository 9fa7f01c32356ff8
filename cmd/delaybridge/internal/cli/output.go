package cli

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
	FormatTable = "table"
	FormatJSON  = "json"
	FormatJSONL = "jsonl"
)

// OutputFlag adds -o to cmd, for the given formats, the first of which is the
// default. The value is checked before the command runs.
func OutputFlag(cmd *cobra.Command, formats ...string) *string {
	format := cmd.Flags().StringP("output", "o", formats[0], "output format: "+strings.Join(formats, ", "))
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if !slices.Contains(formats, *format) {
			return Usage(fmt.Errorf("--output %q: use %s", *format, strings.Join(formats, ", ")))
		}
		return nil
	}
	return format
}

// BodyOf returns a body as JSON has it: as text where it is UTF-8, and otherwise as bytes.
func BodyOf(body []byte) (text *string, other []byte) {
	if whole := string(body); utf8.ValidString(whole) {
		return &whole, nil
	}
	return nil, body
}

// Stream writes items in the given format as they come, however many.
type Stream struct {
	Out    io.Writer
	Format string
	Header string // of a table; without one there is a blank line between two items
	N      int    // how many items there were
	err    error  // the first
}

// Add writes one item, of which row is the line in a table. It returns false when there
// is no point in going on.
func (s *Stream) Add(item any, row string) bool {
	if s.err != nil {
		return false
	}
	var text []byte
	switch s.Format {
	case FormatTable:
		if s.N == 0 && s.Header != "" || s.N > 0 && s.Header == "" {
			text = append([]byte(s.Header), '\n')
		}
		text = append(append(text, strings.TrimRight(row, " \n")...), '\n')
	case FormatJSON:
		text, s.err = json.MarshalIndent(item, "  ", "  ")
		begin := ",\n  "
		if s.N == 0 {
			begin = "[\n  "
		}
		text = append([]byte(begin), text...)
	default:
		text, s.err = json.Marshal(item)
		text = append(text, '\n')
	}
	if s.err == nil {
		_, s.err = s.Out.Write(text)
	}
	s.N++
	return s.err == nil
}

// Close writes what is left, and returns the first error of writing.
func (s *Stream) Close() error {
	if s.err == nil && s.Format == FormatJSON {
		end := "\n]\n"
		if s.N == 0 {
			end = "[]\n"
		}
		_, s.err = io.WriteString(s.Out, end)
	}
	if s.err != nil {
		return fmt.Errorf("standard output: %w", s.err)
	}
	return nil
}

// PrintJSON writes one value, for people to read, too.
func PrintJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// Emit writes items in the given format. row gives an item's cells under header.
func Emit[T any](w io.Writer, format string, items []T, header []string, row func(T) []string) error {
	switch format {
	case FormatJSON:
		if items == nil {
			items = []T{} // [], not null
		}
		return PrintJSON(w, items)
	case FormatJSONL:
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

// Raw is what w writes to in the end, for what draws on a terminal. That has to escape by
// itself what strangers chose.
func Raw(w io.Writer) io.Writer {
	if p, ok := w.(*printable.Writer); ok {
		return p.Raw()
	}
	return w
}

// IsTerminal reports whether a person looks at, or types into, one of the streams.
func IsTerminal(stream any) bool {
	if w, ok := stream.(io.Writer); ok {
		stream = Raw(w)
	}
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
