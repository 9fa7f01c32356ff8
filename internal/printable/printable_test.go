package printable_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"unicode"

	"github.com/delaybridge/delaybridge/internal/printable"
)

func TestText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "", "order-1 ü 漢": "order-1 ü 漢", `a\b`: `a\b`,
		"\x1b[2J": `\u001b[2J`, "a\r\n\tb\x7f": `a\u000d\u000a\u0009b\u007f`,
		"\u0085\u009b": `\u0085\u009b`, "\u202e\u2066\u200b\u2028\u00a0": `\u202e\u2066\u200b\u2028\u00a0`,
		"\U000e0041\ue000": `\udb40\udc41\ue000`, "\x9bü\xc3": `\x9bü\xc3`, "\ufffd": "\ufffd",
	} {
		if got := printable.Text(in); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

func TestErrorKeepsTheLinesOfJoinedErrors(t *testing.T) {
	t.Parallel()
	stranger := errors.New("key a\nb")
	cause := errors.New("c\x1b")
	both := errors.Join(stranger, cause)
	for want, err := range map[string]error{
		`key a; b`:                        stranger,
		"key a; b\nc\\u001b":              both,
		"x; y: key a; b\nc\\u001b (z)":    fmt.Errorf("x\ny: %w (z)", both),
		`c\u001b: key a; b`:               fmt.Errorf("%w: %w", cause, stranger),
		"c\\u001b: 1\nkey a; b\nc\\u001b": errors.Join(fmt.Errorf("%w: 1", cause), both),
		"pg: a; b\\u0009":                 errors.New("pg: a\n\tb\t"),
		`other`:                           renamed{stranger},
		`none`:                            renamed2{},
	} {
		if got := printable.Error(err); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// renamed is an error whose text does not have that of its cause.
type renamed struct{ cause error }

func (renamed) Error() string   { return "other" }
func (r renamed) Unwrap() error { return r.cause }

type renamed2 struct{ renamed }

func (renamed2) Error() string { return "none" }

func TestShell(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"o-1": "o-1", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "-n": "'-n'", "=ls": "'=ls'", "$HOME": "'$HOME'", "order.unpaid": "order.unpaid",
		"order.#": "'order.#'", "a\nit's\\": `$'a\012it\'s\\'`, "\u202e1": `$'\342\200\2561'`, "\x9b": `$'\233'`,
	} {
		if got := printable.Shell(in); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

func TestWordsSurviveTheShell(t *testing.T) {
	t.Parallel()
	for _, word := range []string{
		"", "/", "plain-1_x.y", "it's", `{"a":"b c"}`, `^(?!x\.)(?=.*(?:$(id)))`, "ü", "`id`", `\`, "!x", "~", "*",
		"a\tb", "\x1b]0;x\x07", "\u202e'$(id)'\\", "\x9b1\xff", "a\n\n",
	} {
		shells := []string{"bash"}
		if printable.Text(word) == word {
			shells = append(shells, "sh")
		}
		for _, shell := range shells {
			output, err := exec.CommandContext(t.Context(), shell, "-c", "printf %s "+printable.Shell(word)).Output()
			if err != nil || string(output) != word {
				t.Errorf("%s: %q became %q (%v)", shell, word, output, err)
			}
		}
	}
}

func TestWriterCopesWithRunesInPieces(t *testing.T) {
	t.Parallel()
	const text = "a\x1bü\u202e漢\U000e0041\x9b\xe2\x80\xf0\x9f\xffz\u0085\xe2\x80"
	const want = `a\u001bü\u202e漢\udb40\udc41\ufffd\ufffd\ufffd\ufffd\ufffd\ufffdz\u0085\ufffd\ufffd`
	for size := 1; size <= len(text); size++ {
		var out bytes.Buffer
		w := printable.NewWriter(&out)
		for rest := text; rest != ""; {
			piece := rest[:min(size, len(rest))]
			if n, err := w.Write([]byte(piece)); n != len(piece) || err != nil {
				t.Fatalf("in pieces of %d bytes: %d bytes written, %v", size, n, err)
			}
			rest = rest[len(piece):]
		}
		if err := w.Flush(); err != nil || out.String() != want {
			t.Errorf("in pieces of %d bytes: got %s, want %s (%v)", size, &out, want, err)
		}
	}
}

// full takes so many bytes.
type full struct{ room int }

var errFull = errors.New("no space left")

func (f *full) Write(p []byte) (int, error) {
	n := min(f.room, len(p))
	f.room -= n
	if n < len(p) {
		return n, errFull
	}
	return n, nil
}

func TestWriterSaysHowMuchWasWritten(t *testing.T) {
	t.Parallel()
	for room, want := range map[int]int{0: 0, 1: 1, 6: 1, 7: 2, 8: 2, 9: 4, 10: 5} {
		n, err := printable.NewWriter(&full{room}).Write([]byte("a\x1büz"))
		if n != want || (err == nil) != (room == 10) {
			t.Errorf("with room for %d bytes: %d written (%v), want %d", room, n, err, want)
		}
	}
	w := printable.NewWriter(&full{1})
	if n, err := w.Write([]byte("a\xc3")); n != 2 || err != nil {
		t.Errorf("%d written (%v), want 2", n, err)
	}
	if n, err := w.Write([]byte("\xbcz")); n != 0 || !errors.Is(err, errFull) {
		t.Errorf("%d written (%v), want none", n, err)
	}
}

// Whatever is written, in whatever pieces, is printable; JSON stays JSON of the same value;
// and a word for the shell is printable, too.
func FuzzPrintable(f *testing.F) {
	for _, text := range []string{"", "order-1", "\x1b[2J\r\n\t", "\u0085\u009b\u202e\u2066\u200b\u2028", "\xff\xe2\x80", "'\\\"", "\U000e0041\ue000"} {
		f.Add(text, 2)
	}
	f.Fuzz(func(t *testing.T, text string, cut int) {
		allowed := func(r rune) bool { return unicode.IsPrint(r) || r == '\n' || r == '\t' }
		encoded, err := json.Marshal(map[string]string{text: text})
		if err != nil {
			t.Fatal(err)
		}
		written := func(s string) string {
			var out bytes.Buffer
			w := printable.NewWriter(&out)
			at := min(max(0, cut), len(s))
			for _, piece := range []string{s[:at], s[at:]} {
				if n, err := w.Write([]byte(piece)); n != len(piece) || err != nil {
					t.Fatalf("%d of %d bytes written, %v", n, len(piece), err)
				}
			}
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			return out.String()
		}
		for _, shown := range []string{written(text), written(string(encoded))} {
			if strings.ContainsFunc(shown, func(r rune) bool { return !allowed(r) }) {
				t.Errorf("%q was written as %q", text, shown)
			}
		}
		for _, shown := range []string{printable.Text(text), printable.Shell(text)} {
			if strings.ContainsFunc(shown, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("%q is shown as %q", text, shown)
			}
		}
		var want, got map[string]string
		if err := errors.Join(json.Unmarshal(encoded, &want), json.Unmarshal([]byte(written(string(encoded))), &got)); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q became %q (%v)", want, got, err)
		}
	})
}
