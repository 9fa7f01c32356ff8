package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
)

func TestUnknownCommandsAndFlags(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"nonsense":            `unknown command "nonsense" for "delaybridge" (see 'delaybridge --help')`,
		"config nonsense":     `unknown command "nonsense" for "delaybridge config" (see 'delaybridge config --help')`,
		"config show more":    `unknown command "more" for "delaybridge config show" (see 'delaybridge config show --help')`,
		"topology nonsense":   `for "delaybridge topology"`,
		"order nonsense":      `for "delaybridge order"`,
		"--nonsense":          `unknown flag: --nonsense (see 'delaybridge --help')`,
		"bridge --nonsense":   `unknown flag: --nonsense (see 'delaybridge bridge --help')`,
		"bridge more":         `for "delaybridge bridge"`,
		"bridge --lease soon": `invalid argument "soon" for "--lease" flag: "soon" is not a duration: write 1500ms, 30m, 1h30m, 7d or 1y`,
		"config show -o yaml": `--output "yaml": use table, json, jsonl`,
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := runIn(t, nil, strings.Fields(line)...)
			if code != cli.ExitUsage || !strings.HasPrefix(stderr, "delaybridge: ") || !strings.Contains(stderr, want) || stdout != "" {
				t.Errorf("exit code %d, standard output %q, standard error %q; want %d and %q", code, stdout, stderr, cli.ExitUsage, want)
			}
		})
	}
}

// TestHelpOfEveryCommand also shows that each parent alone prints its help, apart from migrate,
// which does something itself.
func TestHelpOfEveryCommand(t *testing.T) {
	t.Parallel()
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Name() == "completion" || cmd.Name() == "help" {
			return
		}
		args := strings.Fields(cmd.CommandPath())[1:]
		if code, stdout, stderr := runIn(t, nil, append(args, "--help")...); code != cli.ExitOK || !strings.Contains(stdout, "Usage:") || stderr != "" {
			t.Errorf("%v --help: exit code %d, %q, %q", args, code, stdout, stderr)
		}
		if cmd.Short == "" {
			t.Errorf("%v has no short description", args)
		}
		if cmd.HasSubCommands() && cmd.Name() != "migrate" {
			if code, stdout, _ := runIn(t, nil, args...); code != cli.ExitOK || !strings.Contains(stdout, "Available Commands:") {
				t.Errorf("%v alone: exit code %d, %q", args, code, stdout)
			}
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRootCommand(&cli.App{Settings: cli.NewSettings(func(string) (string, bool) { return "", false })}))
}

func TestVersion(t *testing.T) {
	t.Parallel()
	if code, stdout, _ := runIn(t, nil, "--version"); code != cli.ExitOK || !strings.HasPrefix(stdout, "delaybridge ") {
		t.Errorf("exit code %d, %q", code, stdout)
	}
	_, want, _ := runIn(t, nil, "version", "-o", "json")
	for _, args := range [][]string{{"--version", "-o", "json"}, {"-o", "json", "--version"}, {"--output=json", "--version"}, {"--version", "-o", "jsonl"}, {"version", "-o", "jsonl"}} {
		if code, stdout, stderr := runIn(t, nil, args...); code != cli.ExitOK || stdout != want || !strings.HasPrefix(stdout, `{"version":`) {
			t.Errorf("%v: exit code %d, %q, %q; want %q", args, code, stdout, stderr, want)
		}
	}
	for line, want := range map[string]string{
		"-o json":           "--output goes with --version",
		"--version -o yaml": `--output "yaml": use table, json, jsonl`,
		"--version bridge":  "unknown flag: --version",
	} {
		if code, stdout, stderr := runIn(t, nil, strings.Fields(line)...); code != cli.ExitUsage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %q, %q; want %q", line, code, stdout, stderr, want)
		}
	}
}
