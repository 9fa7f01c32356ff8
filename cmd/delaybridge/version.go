package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func newVersionCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "Print version, commit and date", Args: usageArgs(cobra.NoArgs)}
	format := outputFlag(cmd, formatTable, formatJSON, formatJSONL)
	cmd.RunE = func(*cobra.Command, []string) error {
		if *format != formatTable {
			return printBuild(a)
		}
		b := build()
		_, err := fmt.Fprintln(a.out, strings.TrimSpace("delaybridge "+b.Version+" "+b.Commit+" "+b.Date))
		return err
	}
	return cmd
}

func printBuild(a *app) error { return json.NewEncoder(a.out).Encode(build()) }

// versionFlag adds --version to a command that otherwise prints its help.
func versionFlag(root *cobra.Command, a *app) {
	asked := root.Flags().Bool("version", false, "print the version; with -o json commit and date, too")
	format := outputFlag(root, formatTable, formatJSON, formatJSONL)
	help := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case *asked && *format != formatTable:
			return printBuild(a)
		case *asked:
			_, err := fmt.Fprintln(a.out, "delaybridge "+version())
			return err
		case cmd.Flags().Changed("output"):
			return usage(errors.New("--output goes with --version, or with a command (see 'delaybridge --help')"))
		}
		return help(cmd, args)
	}
}
