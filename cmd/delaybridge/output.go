package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
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

// emit writes items in the given format. row gives an item's cells under header.
func emit[T any](w io.Writer, format string, items []T, header []string, row func(T) []string) error {
	switch format {
	case formatJSON:
		if items == nil {
			items = []T{} // [], not null
		}
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(items)
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
		fmt.Fprintln(table, strings.Join(row(item), "\t"))
	}
	return table.Flush()
}
