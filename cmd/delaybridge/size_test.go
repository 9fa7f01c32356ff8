package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/capacity"
)

// The examples of docs/capacity.md print today what is printed there. It asks no server.
func TestSizeAsInItsDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(repository, "docs/capacity.md"))
	if err != nil {
		t.Fatal(err)
	}
	const command = "\n    delaybridge size "
	examples := strings.Split(string(text), command)[1:]
	if len(examples) == 0 {
		t.Fatalf("docs/capacity.md has no line %q", command)
	}
	for _, example := range examples {
		line, rest, _ := strings.Cut(example, "\n")
		want, _, ok := strings.Cut(strings.TrimPrefix(rest, "\n```\n"), "```\n")
		if !ok {
			t.Fatalf("docs/capacity.md does not print what %q does", line)
		}
		code, printed, said := runIn(t, nil, append([]string{"size"}, strings.Fields(line)...)...)
		if code != cli.ExitOK || printed != want {
			t.Errorf("%s: exit code %d, %s, printed\n%s\nand docs/capacity.md has\n%s", line, code, said, printed, want)
		}
	}
}

func TestSizeJSON(t *testing.T) {
	t.Parallel()
	figures := func(args string, env map[string]string) map[string]capacity.Figure {
		t.Helper()
		code, printed, said := runIn(t, env, strings.Fields("size -o json "+args)...)
		var list []capacity.Figure
		if err := json.Unmarshal([]byte(printed), &list); err != nil || code != cli.ExitOK || said != "" {
			t.Fatalf("exit code %d, %v, %s", code, err, said)
		}
		byKey := map[string]capacity.Figure{}
		for _, f := range list {
			byKey[f.Key] = f
		}
		return byKey
	}
	as := figures("--pending 50M --body 400 --rate 2000", nil)
	if as["redis_servers"].Value != 2 || as["redis_memory_bytes"].Warning == "" || as["shards"].Warning != "" || as["lanes_messages"].RestsOn == "" {
		t.Errorf("got %+v", as)
	}
	// The same in other words.
	for key, f := range figures("--pending 0.05G --body 0.4KB --rate 2k --id 26B --within 720h --redis-memory 32000MB", nil) {
		if f != as[key] {
			t.Errorf("got %+v, want %+v", f, as[key])
		}
	}
	// The settings count.
	with := figures("--pending 1M --body 400 --rate 100", map[string]string{"DELAYBRIDGE_LEAD": "6m", "DELAYBRIDGE_SHARDS": "9"})
	if with["shards"].Value != 9 || with["lanes_messages"].Value != 100*300+2048 {
		t.Errorf("got %+v", with)
	}
	without, remembered := figures("--pending 1M --body 400 --rate 100", nil), figures("--pending 1M --body 400 --rate 100 --dedupe-window 1d", nil)
	if remembered["redis_memory_bytes"].Value < 2*without["redis_memory_bytes"].Value {
		t.Errorf("8.6 million that are remembered for a day take %v, and none %v", remembered["redis_memory_bytes"], without["redis_memory_bytes"])
	}
}

func TestSizeUsage(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"":                    "--pending is missing: write it as 50M\n--rate is missing: write it as 2000\n--body is missing: write it as 400 or 4KiB",
		"--pending 0":         `--pending "0": use a number above 0, such as 50M`,
		"--pending 50m":       `--pending "50m": use a number above 0, such as 50M`,
		"--pending 1kM":       `--pending "1kM": use a number above 0, such as 50M`,
		"--pending M":         `--pending "M": use a number above 0, such as 50M`,
		"--pending NaN":       `--pending "NaN": use a number above 0, such as 50M`,
		"--pending 2000G":     `--pending "2000G": use 1000000000000 at most`,
		"--rate -1":           `--rate "-1": use a number above 0, such as 2000`,
		"--rate inf":          `--rate "inf": use 1000000000 at most`,
		"--rate 19":           "--rate 19: with --pending 50M, within 30d, 19.29 messages are due in a second on average: raise --rate or --within",
		"--body 0":            `--body "0": use a number above 0, such as 400 or 4KiB`,
		"--body much":         `--body "much": use a number above 0, such as 400 or 4KiB`,
		"--id 256":            `--id "256": use 255 at most`,
		"--redis-memory 0GB":  `--redis-memory "0GB": use a number above 0, such as 32GB`,
		"--within 0s":         `--within "0s": use a duration of 1s at least, such as 30d`,
		"--within soon":       `--within "soon": use a duration of 1s at least, such as 30d`,
		"--lead 1ms":          "lead",
		"more":                `unknown command "more"`,
		"-o yaml":             `--output "yaml": use table, json, jsonl`,
		"--pending 0 --id 0":  `--id "0": use a number above 0, such as 26`, // each fault is named
		"--days 3":            "unknown flag: --days",
		"--pending 1 --rate ": "flag needs an argument: --rate",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			args := []string{"size"}
			if line != "" {
				args = append(append(args, "--pending", "50M", "--rate", "2000", "--body", "400"), strings.Fields(line)...)
			}
			code, stdout, stderr := runIn(t, nil, args...)
			if code != cli.ExitUsage || !strings.Contains(stderr, want) || stdout != "" {
				t.Errorf("exit code %d, %q, %q; want %q", code, stdout, stderr, want)
			}
		})
	}
}
