// Package cli has what all commands of the program share: streams, settings, flags, exit codes,
// output formats and signs of progress. It knows no command and no server. A command gets an
// [App], and prints through [Emit] or a [Stream].
package cli

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"
)

// Streams are the three of a command: data goes to Out, everything else to Err. What
// commands are given escapes what is not printable, but lets line breaks and tabs pass: text that may
// have those, and is to be on one line, goes through printable.Text.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// App is what the commands share: the streams and the settings.
type App struct {
	Streams
	Settings *Settings
}

// Group makes cmd a parent that does nothing itself: alone it prints its help,
// and an unknown subcommand is an error, which cobra would let pass.
func Group(cmd *cobra.Command) {
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			meant := ""
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				meant = "; did you mean " + strings.Join(near, " or ") + "?"
			}
			return Usage(fmt.Errorf("unknown command %q for %q%s (see '%s --help')", args[0], cmd.CommandPath(), meant, cmd.CommandPath()))
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// UsageArgs makes a wrong number of arguments a usage error.
func UsageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return Usage(fmt.Errorf("%w (see '%s --help')", err, cmd.CommandPath()))
		}
		return nil
	}
}

// Logger writes to standard error as the settings say.
func (a *App) Logger(c Config) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel, ReplaceAttr: hideSecrets}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(a.Err, options))
	}
	return slog.New(slog.NewTextHandler(a.Err, options))
}
