package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/redisbridge"
)

// streams are the three of a command: data goes to out, everything else to err. What run hands
// to commands escapes what is not printable, but lets line breaks and tabs pass: text that may
// have those, and is to be on one line, goes through printable.Text.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// app is what the commands share: the streams and the settings.
type app struct {
	streams
	settings *flagSettings
}

// run is the program without its process: it executes one command line and
// returns the exit code. Nothing of what it prints is raw.
func run(ctx context.Context, args []string, s streams, lookupEnv func(string) (string, bool)) int {
	out, said := printable.NewWriter(s.out), printable.NewWriter(s.err)
	defer func() { _, _ = out.Flush(), said.Flush() }()
	s.out, s.err = out, said
	a := &app{streams: s, settings: newSettings(lookupEnv)}
	root := newRootCommand(a)
	root.SetArgs(args)
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	err := root.ExecuteContext(ctx)
	code := exitCode(ctx, err)
	if err != nil && code != exitInterrupted {
		fmt.Fprintf(s.err, "delaybridge: %s\n", withoutSecrets(printable.Error(a.located(err))))
	}
	return code
}

// located has an error that is about Redis say where that was looked for.
func (a *app) located(err error) error {
	if !errors.Is(err, redisbridge.ErrUnreachable) {
		return err
	}
	c, wrong := a.settings.sources(a.settings.flags).Read()
	if wrong != nil {
		return err
	}
	return fmt.Errorf("%w (redis-url %s)", err, broker.Redact(c.RedisURL))
}

func newRootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "delaybridge",
		Short: "Exact, durable message delays for RabbitMQ",
		Long: `delaybridge gives plain RabbitMQ exact, durable message delays from a
millisecond to ten years: tiers of TTL queues do the last stretch, Redis keeps
what is further away.

Exit codes: 0 ok, 1 failed, 2 usage or configuration, 3 drift found, or findings,
4 a server is unreachable, 130 interrupted.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	group(root)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage(fmt.Errorf("%w (see '%s --help')", err, cmd.CommandPath()))
	})
	versionFlag(root, a)
	a.settings.register(root.PersistentFlags(), a.logger)
	root.SetUsageTemplate(withoutSettings(root.UsageTemplate()))
	root.AddCommand(
		newTopologyCommand(a),
		newMigrateCommand(a),
		newPublishCommand(a),
		newCancelCommand(a),
		newRescheduleCommand(a),
		newEraseCommand(a),
		newGetCommand(a),
		newListCommand(a),
		newExportCommand(a),
		newImportCommand(a),
		newAdoptCommand(a),
		newReshardCommand(a),
		newAuditCommand(a),
		newStatsCommand(a),
		newTopCommand(a),
		newDoctorCommand(a),
		newBridgeCommand(a),
		newConsumeCommand(a),
		newRelayCommand(a),
		newQuarantineCommand(a),
		newPermissionsCommand(a),
		newSizeCommand(a),
		newOrderCommand(a),
		newProbeCommand(a),
		newConfigCommand(a),
		newContextCommand(a),
		newOptionsCommand(a),
		newVersionCommand(a),
	)
	a.completions(root)
	return root
}

// group makes cmd a parent that does nothing itself: alone it prints its help,
// and an unknown subcommand is an error, which cobra would let pass.
func group(cmd *cobra.Command) {
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			meant := ""
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				meant = "; did you mean " + strings.Join(near, " or ") + "?"
			}
			return usage(fmt.Errorf("unknown command %q for %q%s (see '%s --help')", args[0], cmd.CommandPath(), meant, cmd.CommandPath()))
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// usageArgs makes a wrong number of arguments a usage error.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usage(fmt.Errorf("%w (see '%s --help')", err, cmd.CommandPath()))
		}
		return nil
	}
}

// logger writes to standard error as the settings say.
func (a *app) logger(c config) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel, ReplaceAttr: hideSecrets}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(a.err, options))
	}
	return slog.New(slog.NewTextHandler(a.err, options))
}

// redisLog takes what go-redis would write to standard error by itself, for the
// whole process. What matters of it we tell ourselves.
type redisLog struct{ log *slog.Logger }

func (l redisLog) Printf(_ context.Context, format string, v ...any) {
	l.log.Debug("redis client", "says", fmt.Sprintf(format, v...))
}

func version() string { return build().Version }

// buildInfo is what `version` prints.
type buildInfo struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Date    string `json:"date,omitempty"` // of the commit
	Go      string `json:"go"`
}

func build() buildInfo {
	b := buildInfo{Version: "(devel)", Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version = cmp.Or(info.Main.Version, b.Version)
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		}
	}
	return b
}

func newVersionCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "Print version, commit and date", Args: usageArgs(cobra.NoArgs)}
	format := outputFlag(cmd, formatTable, formatJSON, formatJSONL)
	cmd.RunE = func(*cobra.Command, []string) error {
		if *format != formatTable {
			return a.printBuild()
		}
		b := build()
		_, err := fmt.Fprintln(a.out, strings.TrimSpace("delaybridge "+b.Version+" "+b.Commit+" "+b.Date))
		return err
	}
	return cmd
}

func (a *app) printBuild() error { return json.NewEncoder(a.out).Encode(build()) }

// versionFlag adds --version to a command that otherwise prints its help.
func versionFlag(root *cobra.Command, a *app) {
	asked := root.Flags().Bool("version", false, "print the version; with -o json commit and date, too")
	format := outputFlag(root, formatTable, formatJSON, formatJSONL)
	help := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case *asked && *format != formatTable:
			return a.printBuild()
		case *asked:
			_, err := fmt.Fprintln(a.out, "delaybridge "+version())
			return err
		case cmd.Flags().Changed("output"):
			return usage(errors.New("--output goes with --version, or with a command (see 'delaybridge --help')"))
		}
		return help(cmd, args)
	}
}

// withoutSettings takes the flags that all commands have out of their help.
func withoutSettings(template string) string {
	const begin, end = "{{if .HasAvailableInheritedFlags}}", "{{end}}"
	before, rest, found := strings.Cut(template, begin)
	_, after, ends := strings.Cut(rest, end)
	if !found || !ends {
		panic("the help has no such part any more") // of the library
	}
	return before + begin + "\n\nUse \"delaybridge options\" for the settings that all commands take.{{end}}" + after
}

func newOptionsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "options", Short: "List the settings that all commands take, as flags", Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(a.out, cmd.Root().PersistentFlags().FlagUsages())
			return err
		},
	}
}
