package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

type item struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

func (i item) row() []string { return []string{i.Name, "x"} }

func TestEmit(t *testing.T) {
	t.Parallel()
	items := []item{{"a<b", 1}, {"long name", 22}}
	for name, c := range map[string]struct {
		format string
		items  []item
		want   string
	}{
		"table":       {FormatTable, items, "NAME       COUNT\na<b        x\nlong name  x\n"},
		"empty table": {FormatTable, nil, "NAME  COUNT\n"},
		"json":        {FormatJSON, items[1:], "[\n  {\n    \"name\": \"long name\",\n    \"count\": 22\n  }\n]\n"},
		"empty json":  {FormatJSON, nil, "[]\n"},
		"jsonl":       {FormatJSONL, items[1:], "{\"name\":\"long name\",\"count\":22}\n"},
		"empty jsonl": {FormatJSONL, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			if err := Emit(&out, c.format, c.items, []string{"NAME", "COUNT"}, item.row); err != nil {
				t.Fatal(err)
			}
			if out.String() != c.want {
				t.Errorf("got  %q\nwant %q", &out, c.want)
			}
		})
	}
}

type fullDisk struct{}

var errFull = errors.New("no space left")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestEmitSaysThatItCannotWrite(t *testing.T) {
	t.Parallel()
	for _, format := range []string{FormatTable, FormatJSON, FormatJSONL} {
		if err := Emit(fullDisk{}, format, []item{{"a", 1}}, []string{"NAME", "COUNT"}, item.row); !errors.Is(err, errFull) {
			t.Errorf("%s: got %v, want the writer's error", format, err)
		}
	}
}

func TestOutputFlag(t *testing.T) {
	t.Parallel()
	for value, code := range map[string]int{"table": ExitOK, "jsonl": ExitOK, "json": ExitUsage, "": ExitUsage} {
		cmd := &cobra.Command{Use: "x", SilenceErrors: true, SilenceUsage: true}
		got := OutputFlag(cmd, FormatTable, FormatJSONL)
		ran := ""
		cmd.RunE = func(*cobra.Command, []string) error {
			ran = *got
			return nil
		}
		cmd.SetArgs([]string{"-o", value})
		if err := cmd.ExecuteContext(t.Context()); ExitCode(t.Context(), err) != code {
			t.Errorf("-o %q: got %v, want exit code %d", value, err, code)
		} else if code == ExitOK && ran != value {
			t.Errorf("-o %q: ran with %q", value, ran)
		} else if code != ExitOK && ran != "" {
			t.Errorf("-o %q: ran all the same", value)
		}
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
		{FormatTable, "HEAD", 0, ""},
		{FormatTable, "HEAD", 2, "HEAD\nrow 0\nrow 1\n"},
		{FormatTable, "", 2, "row 0\n\nrow 1\n"},
		{FormatJSON, "HEAD", 0, "[]\n"},
		{FormatJSON, "HEAD", 2, "[\n  {\n    \"n\": 0\n  },\n  {\n    \"n\": 1\n  }\n]\n"},
		{FormatJSONL, "HEAD", 0, ""},
		{FormatJSONL, "HEAD", 2, "{\"n\":0}\n{\"n\":1}\n"},
	} {
		var b strings.Builder
		s := &Stream{Out: &b, Format: c.format, Header: c.header}
		for i := range c.n {
			if !s.Add(one{i}, fmt.Sprintf("row %d  ", i)) {
				t.Errorf("%s: item %d is refused", c.format, i)
			}
		}
		if err := s.Close(); err != nil || b.String() != c.want {
			t.Errorf("%s of %d: got %q, %v; want %q", c.format, c.n, b.String(), err, c.want)
		}
	}
	read, write := io.Pipe()
	_ = read.Close()
	s := &Stream{Out: write, Format: FormatJSON}
	for range 2 {
		if s.Add(one{}, "") {
			t.Error("what cannot be written goes on")
		}
	}
	if err := s.Close(); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v, want ErrClosedPipe", err)
	}
}
