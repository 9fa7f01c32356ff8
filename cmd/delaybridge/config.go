package main

import (
	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/settings"
)

func newConfigCommand(a *cli.App) *cobra.Command {
	parent := &cobra.Command{Use: "config", Short: "Show the settings in force"}
	cli.Group(parent)
	show := &cobra.Command{
		Use:   "show",
		Short: "Print each setting with its value and where it came from; passwords are left out",
		Long: `Prints each setting with its value and where it came from; passwords are left out. The flags of
bridge and consume follow, where environment or file set them.`,
		Args: cli.UsageArgs(cobra.NoArgs),
	}
	format := cli.OutputFlag(show, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL)
	show.RunE = func(cmd *cobra.Command, _ []string) error {
		values, err := a.Settings.Values()
		if err != nil {
			return err
		}
		for i, v := range values {
			if (settings.Setting{Key: v.Key}).FileKey() != "" && v.Value != "" {
				values[i].Value = broker.Redact(v.Value)
			}
		}
		own, err := a.Settings.SectionValues(cmd.Root())
		if err != nil {
			return err
		}
		values = append(values, own...)
		return cli.Emit(a.Out, *format, values, []string{"SETTING", "VALUE", "SOURCE"}, func(v settings.Value) []string {
			return []string{v.Key, v.Value, v.Source}
		})
	}
	parent.AddCommand(show)
	return parent
}
