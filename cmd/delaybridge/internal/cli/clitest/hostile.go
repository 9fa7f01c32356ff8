// Package clitest has what tests of commands share: a check that what they print is harmless,
// whatever strangers have chosen.
package clitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/printable"
)

// Hostile has what acts on terminals, fakes lines and columns, or hides.
const Hostile = "a\x1b[31m\x1b]0;x\x07\r\nb\tc\u0085\u009b2J\u202ed\u2066\u2028\u200b\U000e0041\x9b\xe2"

// fill sets every text within v, and makes one item of everything that there may be several of.
func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1e9, 0)))
			return
		}
		for _, field := range v.Fields() {
			if field.CanSet() {
				fill(field, text)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(text))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), text)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, text)
		fill(value, text)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Interface:
		switch v.Type() {
		case reflect.TypeFor[error]():
			v.Set(reflect.ValueOf(errors.New(text)))
		case reflect.TypeFor[any]():
			v.Set(reflect.ValueOf(text))
		}
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	default: // has no text
	}
}

// Of is a T whose every text is text.
func Of[T any](text string) T {
	var item T
	fill(reflect.ValueOf(&item).Elem(), text)
	return item
}

// A Print prints what a command has found, whose every text is text, without a server.
type Print func(a *cli.App, format, text string) error

// A Say says something about text on standard error.
type Say func(a *cli.App, text string)

// onScreen is what stands on the terminal where do prints to, and raw what do prints itself.
func onScreen(t *testing.T, do func(a *cli.App) error) (shown, raw string) {
	t.Helper()
	var out, bare bytes.Buffer
	w := printable.NewWriter(&out)
	err := errors.Join(
		do(&cli.App{Streams: cli.Streams{In: strings.NewReader(""), Out: w, Err: w}}),
		do(&cli.App{Streams: cli.Streams{In: strings.NewReader(""), Out: &bare, Err: &bare}}), w.Flush(),
	)
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), bare.String()
}

// ourCodes are those with which top colours what it prints.
var ourCodes = regexp.MustCompile(`\x1b\[(1|2|1;31|32|33)?m`)

// CheckPrintable finds what a terminal would act on.
func CheckPrintable(t *testing.T, name, text string) {
	t.Helper()
	bad := func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' }
	if !utf8.ValidString(text) || strings.ContainsFunc(text, bad) {
		t.Errorf("%s prints %q", name, text)
	}
}

func checkLines(t *testing.T, name, text, tame string) {
	t.Helper()
	if strings.Count(text, "\n") != strings.Count(tame, "\n") {
		t.Errorf("%s prints this many lines only because of the text:\n%s\nwithout it:\n%s", name, text, tame)
	}
}

// FuzzPrints checks that, whatever strangers choose, what commands print is printable, has as many
// lines as otherwise, and as JSON means the same. lacks names the formats that a command does not
// have, such as "doctor jsonl".
func FuzzPrints(f *testing.F, prints map[string]Print, says map[string]Say, lacks ...string) {
	f.Helper()
	for _, text := range []string{Hostile, "order-1", "a\nb", "\x1b[5m", "\u009b5m\u202e", "\xff", "it's", "a\\u202e\"", "\v\f<&>"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = "x" + text[:min(len(text), 50)] // top cuts lines that are very long
		for name, do := range prints {
			table := func(text string) (string, string) {
				return onScreen(t, func(a *cli.App) error { return do(a, cli.FormatTable, text) })
			}
			got, _ := table(text)
			tame, _ := table("x")
			CheckPrintable(t, name, ourCodes.ReplaceAllString(got, ""))
			checkLines(t, name, got, tame)
			for _, format := range []string{cli.FormatJSON, cli.FormatJSONL} {
				if slices.Contains(lacks, name+" "+format) {
					continue
				}
				got, raw := onScreen(t, func(a *cli.App) error { return do(a, format, text) })
				CheckPrintable(t, name+" -o "+format, got)
				if !reflect.DeepEqual(decoded(t, got), decoded(t, raw)) {
					t.Errorf("%s -o %s: %s means something else than %s", name, format, got, raw)
				}
			}
		}
		for name, do := range says {
			say := func(text string) string {
				got, _ := onScreen(t, func(a *cli.App) error { do(a, text); return nil })
				return got
			}
			CheckPrintable(t, name, say(text))
			checkLines(t, name, say(text), say("x"))
		}
	})
}

// decoded are the values of JSON, one after the other.
func decoded(t *testing.T, text string) (values []any) {
	t.Helper()
	for decoder := json.NewDecoder(strings.NewReader(text)); ; {
		var value any
		switch err := decoder.Decode(&value); {
		case errors.Is(err, io.EOF):
			return values
		case err != nil:
			t.Fatalf("%v in %s", err, text)
		}
		values = append(values, value)
	}
}
