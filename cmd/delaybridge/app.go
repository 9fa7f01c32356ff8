package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"
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
