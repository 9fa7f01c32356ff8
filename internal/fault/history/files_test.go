package history_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/internal/fault/history"
)

const order = "o-1"

func create(t *testing.T, dir, name, who string) *history.Writer {
	t.Helper()
	w, err := history.Create(filepath.Join(dir, name), who)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, a := create(t, dir, "b.jsonl", "b/1"), create(t, dir, "a.jsonl", "a/1")
	full := history.Event{
		At: 2, Kind: history.Received, Order: "o\n1", Act: "calm", NotBefore: 3, Due: 4, Intact: true, Detail: "\"quoted\"",
	}
	for _, err := range []error{
		b.Write(history.Event{At: 3, Kind: history.Fault, Detail: "redis down"}),
		a.Write(full),
		a.Write(history.Event{At: 1, Who: "somebody else", Kind: history.Placed, Order: "o-2"}),
		b.Write(history.Event{At: 2, Kind: history.Pay, Order: "o-2"}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("not a history"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := history.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	full.Who = "a/1"
	want := []history.Event{
		{At: 1, Who: "a/1", Kind: history.Placed, Order: "o-2"},
		full,
		{At: 2, Who: "b/1", Kind: history.Pay, Order: "o-2"},
		{At: 3, Who: "b/1", Kind: history.Fault, Detail: "redis down"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, want %+v", got, want)
	}
}

func TestWriterStampsAndKeepsLinesWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := create(t, dir, "a.jsonl", "a/1")
	before := time.Now().UnixMicro()
	const writers, each = 8, 100
	var all sync.WaitGroup
	for n := range writers {
		all.Go(func() {
			for i := range each {
				if err := w.Write(history.Event{Kind: history.Pay, Order: fmt.Sprintf("o-%d-%d", n, i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	after := time.Now().UnixMicro()
	events, err := history.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, e := range events {
		seen[e.Order] = true
		if e.At < before || e.At > after {
			t.Errorf("%+v is not between %d and %d", e, before, after)
		}
	}
	if len(seen) != writers*each || len(events) != writers*each {
		t.Errorf("read %d events of %d orders, want %d", len(events), len(seen), writers*each)
	}
}

func TestKilledWriterLosesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), victimVariable+"="+filepath.Join(dir, "victim.jsonl"))
	out, _ := cmd.CombinedOutput()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
		t.Fatalf("the writer was not killed: %v, %s", cmd.ProcessState, out)
	}
	if events, err := history.Read(dir); err != nil || len(events) != victimEvents {
		t.Errorf("read %d events, error %v; want %d", len(events), err, victimEvents)
	}
}

func TestWriterRefusesWhatCannotBeJudged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := create(t, dir, "a.jsonl", "a/1")
	for _, e := range []history.Event{
		{Kind: "sold", Order: order},
		{Kind: history.Placed},
		{Kind: history.Publish, Order: order},
		{Kind: history.Effect, Order: order, Detail: "shut"},
		{Kind: history.Pay, Order: order, At: -1},
	} {
		if err := w.Write(e); err == nil {
			t.Errorf("wrote %+v", e)
		}
	}
	if events, err := history.Read(dir); err != nil || len(events) > 0 {
		t.Errorf("read %v, error %v", events, err)
	}
	if _, err := history.Create(filepath.Join(dir, "a.jsonl"), "a/2"); !os.IsExist(err) {
		t.Errorf("error %v; two lives of a process must not share a file", err)
	}
}

func TestReadToleratesOnlyTornLastLines(t *testing.T) {
	t.Parallel()
	const whole = `{"at":1,"who":"a/1","kind":"pay","order":"o-1"}` + "\n"
	for name, c := range map[string]struct {
		content string
		events  int
		err     string
	}{
		"whole":                 {whole + whole, 2, ""},
		"empty":                 {"", 0, ""},
		"torn":                  {whole + whole[:20], 1, ""},
		"torn at once":          {"{", 0, ""},
		"only the newline torn": {whole + strings.TrimSpace(whole), 2, ""},
		"torn in the middle":    {whole + whole[:20] + "\n" + whole, 0, "a.jsonl:2: "},
		"last line ends":        {whole + whole + "{}x\n", 0, "a.jsonl:3: "},
		"empty line":            {"\n" + whole, 0, "a.jsonl:1: "},
		"unknown kind":          {strings.Replace(whole, "pay", "sell", 1), 0, `a.jsonl:1: unknown kind "sell"`},
		"no time":               {whole + `{"who":"a/1","kind":"pay","order":"o-1"}`, 0, "a.jsonl:2: no time"},
		"unknown effect":        {strings.Replace(whole, `pay"`, `effect","detail":"shut"`, 1), 0, `a.jsonl:1: unknown effect "shut"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, content := range map[string]string{"a.jsonl": c.content, "b.jsonl": whole + "{"} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			events, err := history.Read(dir)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %s", err, c.err)
				}
				return
			}
			if err != nil || len(events) != c.events+1 {
				t.Errorf("read %v, error %v; want %d events", events, err, c.events+1)
			}
		})
	}
	if _, err := history.Read(filepath.Join(t.TempDir(), "none")); !os.IsNotExist(err) {
		t.Errorf("error %v for a folder that there is not", err)
	}
}

func TestFinalIsReadAsSaved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	final := history.Final{
		Orders:    map[string]history.OrderState{order: {State: history.StateClosed, Closings: 1}},
		Stock:     []history.StockLine{{SKU: "sku-1", Want: 10, Have: 10}},
		Leftover:  []history.Left{{Where: "redis", Order: "o-2", Reason: "why"}},
		Processes: []history.Process{{Name: "bridge-1", Old: 130, Fresh: 50}},
	}
	if err := final.Save(dir); err != nil {
		t.Fatal(err)
	}
	if got, err := history.ReadFinal(dir); err != nil || !reflect.DeepEqual(*got, final) {
		t.Errorf("read %+v, error %v; want %+v", got, err, final)
	}
	if err := os.WriteFile(filepath.Join(dir, "final.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := history.ReadFinal(dir); err == nil || !strings.Contains(err.Error(), "final.json") {
		t.Errorf("error %v, want one that names the file", err)
	}
}

func TestNowIsTheRealTime(t *testing.T) {
	t.Parallel()
	before := time.Now().UnixMicro()
	now := history.Now()
	if after := time.Now().UnixMicro(); now < before || now > after {
		t.Errorf("%d is not between %d and %d", now, before, after)
	}
}
