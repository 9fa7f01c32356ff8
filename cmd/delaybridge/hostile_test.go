package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli/clitest"
)

// The whole program escapes what its arguments and its environment say.
func TestProgramPrintsNothingRaw(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "prefix: [\"\u202e\x1b\"]\n")
	for _, args := range [][]string{
		{"--" + clitest.Hostile}, {clitest.Hostile}, {"get", "--" + clitest.Hostile}, {"get", clitest.Hostile}, {"get", clitest.Hostile, "-o", clitest.Hostile}, {"list", "--state", clitest.Hostile},
		{"list", "--limit", clitest.Hostile}, {"--config", clitest.Hostile, "config", "show"}, {"--config", file, "config", "show"}, {"config", "show", "--tiers", clitest.Hostile},
		{"publish", "--key", "k", "--id", "i", "--in", clitest.Hostile}, {"relay", "--database-url", "mysql://host/" + clitest.Hostile + "?tls=" + clitest.Hostile},
		{"consume", "--queue", "q", "--order-by", clitest.Hostile}, {"config", "show"}, {"config", "show", "-o", "json"}, {"order", "pay", clitest.Hostile, "--orders", file},
	} {
		code, stdout, stderr := runIn(t, map[string]string{
			"DELAYBRIDGE_REDIS_URL": "redis://127.0.0.1:1/", "DELAYBRIDGE_MANAGEMENT_URL": "http://h/" + clitest.Hostile, "DELAYBRIDGE_CONNECT_TIMEOUT": "1s",
		}, args...)
		clitest.CheckPrintable(t, fmt.Sprintf("%q", args), stdout+stderr)
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
