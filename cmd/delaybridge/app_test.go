package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
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
			if code != exitUsage || !strings.HasPrefix(stderr, "delaybridge: ") || !strings.Contains(stderr, want) || stdout != "" {
				t.Errorf("exit code %d, standard output %q, standard error %q; want %d and %q", code, stdout, stderr, exitUsage, want)
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
		if code, stdout, stderr := runIn(t, nil, append(args, "--help")...); code != exitOK || !strings.Contains(stdout, "Usage:") || stderr != "" {
			t.Errorf("%v --help: exit code %d, %q, %q", args, code, stdout, stderr)
		}
		if cmd.Short == "" {
			t.Errorf("%v has no short description", args)
		}
		if cmd.HasSubCommands() && cmd.Name() != "migrate" {
			if code, stdout, _ := runIn(t, nil, args...); code != exitOK || !strings.Contains(stdout, "Available Commands:") {
				t.Errorf("%v alone: exit code %d, %q", args, code, stdout)
			}
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRootCommand(&app{settings: newSettings(func(string) (string, bool) { return "", false })}))
}

func TestVersion(t *testing.T) {
	t.Parallel()
	if code, stdout, _ := runIn(t, nil, "--version"); code != exitOK || !strings.HasPrefix(stdout, "delaybridge ") {
		t.Errorf("exit code %d, %q", code, stdout)
	}
	_, want, _ := runIn(t, nil, "version", "-o", "json")
	for _, args := range [][]string{{"--version", "-o", "json"}, {"-o", "json", "--version"}, {"--output=json", "--version"}, {"--version", "-o", "jsonl"}, {"version", "-o", "jsonl"}} {
		if code, stdout, stderr := runIn(t, nil, args...); code != exitOK || stdout != want || !strings.HasPrefix(stdout, `{"version":`) {
			t.Errorf("%v: exit code %d, %q, %q; want %q", args, code, stdout, stderr, want)
		}
	}
	for line, want := range map[string]string{
		"-o json":           "--output goes with --version",
		"--version -o yaml": `--output "yaml": use table, json, jsonl`,
		"--version bridge":  "unknown flag: --version",
	} {
		if code, stdout, stderr := runIn(t, nil, strings.Fields(line)...); code != exitUsage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %q, %q; want %q", line, code, stdout, stderr, want)
		}
	}
}

func TestExitCode(t *testing.T) {
	t.Parallel()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		want int
	}{
		"nothing":             {t.Context(), nil, exitOK},
		"finished in time":    {cancelled, nil, exitOK},
		"anything":            {t.Context(), errors.New("x"), exitFailed},
		"usage":               {t.Context(), usage(errors.New("x")), exitUsage},
		"drift":               {t.Context(), withCode(exitDrift, errors.New("x")), exitDrift},
		"interrupted":         {cancelled, context.Canceled, exitInterrupted},
		"cancelled elsewhere": {t.Context(), context.Canceled, exitFailed},
		"failed meanwhile":    {cancelled, errors.New("x"), exitFailed},
		"RabbitMQ down":       {t.Context(), broker.ErrUnreachable, exitUnreachable},
		"Redis down":          {t.Context(), redisbridge.ErrUnreachable, exitUnreachable},
		"management down":     {t.Context(), topology.ErrUnreachable, exitUnreachable},
		"wrong AMQP URL":      {t.Context(), broker.ErrConfiguration, exitUsage},
		"wrong Redis URL":     {t.Context(), redisbridge.ErrConfiguration, exitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := c.err
			if err != nil {
				err = fmt.Errorf("wrapped: %w", err)
			}
			if got := exitCode(c.ctx, err); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

func TestLoggerFollowsTheSettings(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	a := &app{streams: streams{err: &said}}
	a.logger(config{LogFormat: "json", LogLevel: 4}).Info("not heard")
	a.logger(config{LogFormat: "json", LogLevel: 4}).Warn("heard", "key", "value")
	if got := said.String(); !strings.Contains(got, `"msg":"heard","key":"value"}`) || strings.Contains(got, "not heard") {
		t.Errorf("got %s", got)
	}
	said.Reset()
	a.logger(config{LogFormat: "text", LogLevel: 0}).Info("heard", "key", "value")
	if got := said.String(); !strings.Contains(got, `msg=heard key=value`) {
		t.Errorf("got %s", got)
	}
}
