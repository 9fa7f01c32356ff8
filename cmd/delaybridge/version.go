package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
)

func newVersionCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "Print version, commit and date", Args: cli.UsageArgs(cobra.NoArgs)}
	format := cli.OutputFlag(cmd, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL)
	cmd.RunE = func(*cobra.Command, []string) error {
		if *format != cli.FormatTable {
			return printBuild(a)
		}
		b := cli.Build()
		_, err := fmt.Fprintln(a.Out, strings.TrimSpace("delaybridge "+b.Version+" "+b.Commit+" "+b.Date))
		return err
	}
	return cmd
}

func printBuild(a *cli.App) error { return json.NewEncoder(a.Out).Encode(cli.Build()) }

// versionFlag adds --version to a command that otherwise prints its help.
func versionFlag(root *cobra.Command, a *cli.App) {
	asked := root.Flags().Bool("version", false, "print the version; with -o json commit and date, too")
	format := cli.OutputFlag(root, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL)
	help := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case *asked && *format != cli.FormatTable:
			return printBuild(a)
		case *asked:
			_, err := fmt.Fprintln(a.Out, "delaybridge "+cli.Version())
			return err
		case cmd.Flags().Changed("output"):
			return cli.Usage(errors.New("--output goes with --version, or with a command (see 'delaybridge --help')"))
		}
		return help(cmd, args)
	}
}
