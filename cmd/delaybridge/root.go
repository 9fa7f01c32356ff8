package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/audit"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/operate"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/setup"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/traffic"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/waiting"
	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/redisbridge"
)

// run is the program without its process: it executes one command line and
// returns the exit code. Nothing of what it prints is raw.
func run(ctx context.Context, args []string, s cli.Streams, lookupEnv func(string) (string, bool)) int {
	out, said := printable.NewWriter(s.Out), printable.NewWriter(s.Err)
	defer func() { _, _ = out.Flush(), said.Flush() }()
	s.Out, s.Err = out, said
	a := &cli.App{Streams: s, Settings: cli.NewSettings(lookupEnv)}
	root := newRootCommand(a)
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	err := root.ExecuteContext(ctx)
	code := cli.ExitCode(ctx, err)
	if err != nil && code != cli.ExitInterrupted {
		fmt.Fprintf(s.Err, "delaybridge: %s\n", cli.WithoutSecrets(printable.Error(located(a, err))))
	}
	return code
}

// located has an error that is about Redis say where that was looked for.
func located(a *cli.App, err error) error {
	if !errors.Is(err, redisbridge.ErrUnreachable) {
		return err
	}
	c, wrong := a.Settings.Sources().Read()
	if wrong != nil {
		return err
	}
	return fmt.Errorf("%w (redis-url %s)", err, broker.Redact(c.RedisURL))
}

func newRootCommand(a *cli.App) *cobra.Command {
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
	cli.Group(root)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return cli.Usage(fmt.Errorf("%w (see '%s --help')", err, cmd.CommandPath()))
	})
	versionFlag(root, a)
	a.Settings.Register(root.PersistentFlags(), a.Logger)
	root.SetUsageTemplate(withoutSettings(root.UsageTemplate()))
	root.AddCommand(audit.Command(a), newConfigCommand(a), newContextCommand(a), newOptionsCommand(a), newVersionCommand(a))
	root.AddCommand(setup.Commands(a)...)
	root.AddCommand(traffic.Commands(a)...)
	root.AddCommand(waiting.Commands(a)...)
	root.AddCommand(operate.Commands(a)...)
	completions(a, root)
	return root
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

func newOptionsCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "options", Short: "List the settings that all commands take, as flags", Args: cli.UsageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(a.Out, cmd.Root().PersistentFlags().FlagUsages())
			return err
		},
	}
}
