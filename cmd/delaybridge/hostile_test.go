package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/consumer/orders"
	"github.com/delaybridge/delaybridge/internal/doctor"
	"github.com/delaybridge/delaybridge/internal/migration"
	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/internal/quarantine"
	"github.com/delaybridge/delaybridge/internal/top"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// hostile has what acts on terminals, fakes lines and columns, or hides.
const hostile = "a\x1b[31m\x1b]0;x\x07\r\nb\tc\u0085\u009b2J\u202ed\u2066\u2028\u200b\U000e0041\x9b\xe2"

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

// of is a T whose every text is text.
func of[T any](text string) T {
	var item T
	fill(reflect.ValueOf(&item).Elem(), text)
	return item
}

// prints are what the commands print of what they have found, without a server.
func prints() map[string]func(a *cli.App, format, text string) error {
	return map[string]func(a *cli.App, format, text string) error{
		"get": func(a *cli.App, format, text string) error {
			out := &cli.Stream{Out: a.Out, Format: format}
			m := of[redisbridge.MessageState](text)
			out.Add(m, tableOf(&m))
			m.Unreadable = nil // shows the rest
			out.Add(m, tableOf(&m))
			return out.Close()
		},
		"list": func(a *cli.App, format, text string) error {
			out := &cli.Stream{Out: a.Out, Format: format}
			m := of[listedMessage](text)
			out.Add(m, m.row())
			return out.Close()
		},
		"stats": func(a *cli.App, format, text string) error { return printStats(a, format, of[statistics](text)) },
		"cancel": func(a *cli.App, format, text string) error {
			_ = changeEach(context.Background(), a, format, []string{text}, cancelling(), &redisbridge.AuditRecord{}, func(context.Context, string) (redisbridge.Change, error) {
				return redisbridge.Change{}, errors.New(text)
			})
			return nil
		},
		"cancel --group": func(a *cli.App, format, text string) error {
			group := redisbridge.GroupChange{Group: text, Outcomes: map[redisbridge.Outcome]int{redisbridge.OutcomeDone: 1}}
			return tellOfGroup(a, format, cancelling(), group, nil, &redisbridge.AuditRecord{})
		},
		"audit": func(a *cli.App, format, text string) error {
			out := &cli.Stream{Out: a.Out, Format: format}
			r := of[redisbridge.AuditRecord](text)
			out.Add(r, auditRowOf(r))
			return out.Close()
		},
		"erase": func(a *cli.App, format, text string) error {
			return (&eraser{App: a}).print(format, []redisbridge.Erasure{of[redisbridge.Erasure](text)})
		},
		"doctor": func(a *cli.App, format, text string) error { return printReport(a, format, of[doctor.Report](text)) },
		"quarantine list": func(a *cli.App, format, text string) error {
			p, m := newItemPrinter(a.Out, format, summaryRow, "ID"), of[quarantine.Message](text)
			return errors.Join(p.item(summaryOf(&m), summaryCells(&m)), p.end())
		},
		"quarantine show": func(a *cli.App, format, text string) error {
			p, m := newItemPrinter(a.Out, format, detailsRow), of[quarantine.Message](text)
			m.Stack = "main.go:1" // of which each line gets one
			return errors.Join(p.item(detailsOf(&m), []any{detailsText(&m)}), p.end())
		},
		"quarantine replay": func(a *cli.App, format, text string) error {
			p := newItemPrinter(a.Out, format, replayRow, "ID", "TO", "RESULT")
			return errors.Join(p.item(replayedItem(of[quarantine.Replayed](text))), p.end())
		},
		"publish": func(a *cli.App, format, text string) error {
			return (&publishJob{App: a, format: format}).print([]receipt{of[receipt](text)})
		},
		"relay --list-failed": func(a *cli.App, format, text string) error {
			return printFailedRows(a.Out, format, []failedRow{of[failedRow](text)})
		},
		"topology apply": func(a *cli.App, format, text string) error {
			return printChanges(a, format, []topology.Change{of[topology.Change](text)}, "")
		},
		"topology verify": func(a *cli.App, format, text string) error {
			return printDrifts(a.Out, format, []topology.Drift{of[topology.Drift](text)})
		},
		"migrate": func(a *cli.App, format, text string) error {
			plan := of[migration.Plan](text)
			return printMigration(a, format, &plan)
		},
		"migrate status": func(a *cli.App, format, text string) error {
			return (&migrationStatus{App: a, format: format}).print(of[migration.Status](text), errors.New(text))
		},
		"consume": func(a *cli.App, format, text string) error {
			p := &consumePrinter{out: a.Out, format: format, stop: func() {}, closed: map[string]orders.Outcome{}}
			o := of[consumer.Observation](text)
			o.Outcome = consumer.Quarantined
			p.header()
			p.observe(o)
			return p.err
		},
		"top": func(a *cli.App, format, text string) error {
			return printPicture(a, of[top.Picture](text), topOptions{format: format, interval: time.Second})
		},
	}
}

// says are what the commands say on standard error.
func says() map[string]func(a *cli.App, text string) {
	return map[string]func(a *cli.App, text string){
		"publish --file": func(a *cli.App, text string) {
			r := &publishReport{job: &publishJob{App: a, format: cli.FormatTable}, progress: &progress{}, stop: func() {}}
			r.add(&publication{line: 1, err: rejectedLine{errors.New(text)}})
			p := &publication{line: 2}
			p.message.ID, p.message.RoutingKey, p.receipt.Past = text, text, true
			r.add(p)
			_ = r.close(context.Background(), nil)
		},
		"log": func(a *cli.App, text string) {
			a.Logger(cli.Config{LogFormat: "text"}).Warn("heard", "id", text, "error", errors.New(text), "keys", []string{text})
		},
		"log in JSON": func(a *cli.App, text string) {
			a.Logger(cli.Config{LogFormat: "json"}).Warn("heard", "id", text, "error", errors.New(text), "keys", []string{text})
		},
	}
}

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

func checkPrintable(t *testing.T, name, text string) {
	t.Helper()
	bad := func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' }
	if !utf8.ValidString(text) || strings.ContainsFunc(text, bad) {
		t.Errorf("%s prints %q", name, text)
	}
}

func checkLines(t *testing.T, name, text, tame string) {
	t.Helper()
	if strings.Count(text, "\n") != strings.Count(tame, "\n") {
		t.Errorf("%s prints so many lines only because of the text:\n%s\nwithout it:\n%s", name, text, tame)
	}
}

// Whatever strangers choose, what the commands print is printable, has as many lines as
// otherwise, and as JSON means the same.
func FuzzCommandsPrintNothingRaw(f *testing.F) {
	for _, text := range []string{hostile, "order-1", "a\nb", "\x1b[5m", "\u009b5m\u202e", "\xff", "it's", "a\\u202e\"", "\v\f<&>"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = "x" + text[:min(len(text), 50)] // top cuts lines that are very long
		for name, do := range prints() {
			table := func(text string) (string, string) {
				return onScreen(t, func(a *cli.App) error { return do(a, cli.FormatTable, text) })
			}
			got, _ := table(text)
			tame, _ := table("x")
			checkPrintable(t, name, ourCodes.ReplaceAllString(got, ""))
			checkLines(t, name, got, tame)
			for _, format := range []string{cli.FormatJSON, cli.FormatJSONL} {
				if slices.Contains([]string{"consume " + cli.FormatJSON, "doctor " + cli.FormatJSONL, "migrate " + cli.FormatJSONL}, name+" "+format) {
					continue // which it does not have
				}
				got, raw := onScreen(t, func(a *cli.App) error { return do(a, format, text) })
				checkPrintable(t, name+" -o "+format, got)
				if !reflect.DeepEqual(decoded(t, got), decoded(t, raw)) {
					t.Errorf("%s -o %s: %s means something else than %s", name, format, got, raw)
				}
			}
		}
		for name, do := range says() {
			say := func(text string) string {
				got, _ := onScreen(t, func(a *cli.App) error { do(a, text); return nil })
				return got
			}
			checkPrintable(t, name, say(text))
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

// The whole program escapes what its arguments and its environment say.
func TestProgramPrintsNothingRaw(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "prefix: [\"\u202e\x1b\"]\n")
	for _, args := range [][]string{
		{"--" + hostile}, {hostile}, {"get", "--" + hostile}, {"get", hostile}, {"get", hostile, "-o", hostile}, {"list", "--state", hostile},
		{"list", "--limit", hostile}, {"--config", hostile, "config", "show"}, {"--config", file, "config", "show"}, {"config", "show", "--tiers", hostile},
		{"publish", "--key", "k", "--id", "i", "--in", hostile}, {"relay", "--database-url", "mysql://host/" + hostile + "?tls=" + hostile},
		{"consume", "--queue", "q", "--order-by", hostile}, {"config", "show"}, {"config", "show", "-o", "json"}, {"order", "pay", hostile, "--orders", file},
	} {
		code, stdout, stderr := runIn(t, map[string]string{
			"DELAYBRIDGE_REDIS_URL": "redis://127.0.0.1:1/", "DELAYBRIDGE_MANAGEMENT_URL": "http://h/" + hostile, "DELAYBRIDGE_CONNECT_TIMEOUT": "1s",
		}, args...)
		checkPrintable(t, fmt.Sprintf("%q", args), stdout+stderr)
		if lines := strings.Count(stderr, "\n"); code != cli.ExitOK && lines != 1 {
			t.Errorf("%q: exit code %d, %d lines:\n%s", args, code, lines, stderr)
		}
	}
}

// What completes commands in shells is for them to read: nothing in it is changed.
func TestCompletionIsAsItIs(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		var out bytes.Buffer
		root := newRootCommand(&cli.App{Settings: cli.NewSettings(func(string) (string, bool) { return "", false })})
		root.SetArgs([]string{"completion", shell})
		root.SetOut(&out)
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		if code, stdout, _ := runIn(t, nil, "completion", shell); code != cli.ExitOK || stdout != out.String() {
			t.Errorf("%s: exit code %d, %d bytes, want %d", shell, code, len(stdout), out.Len())
		}
	}
}
