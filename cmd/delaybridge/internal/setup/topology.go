package setup

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/connect"
	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

func newTopologyCommand(a *cli.App) *cobra.Command {
	parent := &cobra.Command{
		Use:   "topology",
		Short: "Plan, apply, verify, export, prune and delete the exchanges and queues",
	}
	cli.Group(parent)
	parent.AddCommand(
		newTopologyPlanCommand(a),
		newTopologyApplyCommand(a),
		newTopologyVerifyCommand(a),
		newTopologyExportCommand(a),
		newTopologyPruneCommand(a),
		newTopologyDeleteCommand(a),
	)
	return parent
}

func newTopologyPlanCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Print what apply would create, and change nothing",
		Long: `Prints what apply would create, and changes nothing. Bindings are shown where
they belong to an exchange or a queue that is to be created; AMQP cannot show
others. verify sees them.`,
		Args: cli.UsageArgs(cobra.NoArgs),
	}
	return changeOverAMQP(a, cmd, (*topology.Topology).Plan, "nothing to create: everything is there")
}

func newTopologyApplyCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Create what is missing, and print it",
		Long: `Creates what is missing, and prints it. Applying again changes nothing. Where an
exchange or a queue of the same name has other properties, or the user lacks a
permission, apply names every such fault and creates nothing.`,
		Args: cli.UsageArgs(cobra.NoArgs),
	}
	return changeOverAMQP(a, cmd, (*topology.Topology).Apply, "nothing was created: everything was there")
}

// changeOverAMQP completes a command that plans or makes changes over AMQP. nothing
// tells people that there are none.
func changeOverAMQP(a *cli.App, cmd *cobra.Command,
	operation func(*topology.Topology, context.Context, topology.Channels) ([]topology.Change, error), nothing string,
) *cobra.Command {
	format := cli.OutputFlag(cmd, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		settings, err := a.Settings.Config()
		if err != nil {
			return err
		}
		var changes []topology.Change
		err = connect.WithBroker(cmd.Context(), a, settings, func(ctx context.Context, channels topology.Channels) (err error) {
			changes, err = operation(connect.NeededTopology(ctx, a, settings), ctx, channels)
			return err
		})
		if err != nil {
			return err
		}
		return printChanges(a, *format, changes, nothing)
	}
	return cmd
}

func newTopologyVerifyCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Compare the broker's effective state with the description; exits with 3 on drift",
		Long: `Asks the management API what the broker goes by, with policies and operator
policies counted in, and prints every difference. Exits with 3 if there is one.
What the broker shows of policies and consumers is up to ten seconds old.`,
		Args: cli.UsageArgs(cobra.NoArgs),
	}
	format := cli.OutputFlag(cmd, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		settings, err := a.Settings.Config()
		if err != nil {
			return err
		}
		management, err := connect.Management(settings)
		if err != nil {
			return err
		}
		drifts, err := connect.NeededTopology(cmd.Context(), a, settings).Verify(cmd.Context(), management)
		if err != nil {
			return err
		}
		if len(drifts) == 0 && *format == cli.FormatTable {
			fmt.Fprintln(a.Err, "no drift so far: the broker is as described, by statistics up to 10 s old")
			return nil
		}
		err = printDrifts(a.Out, *format, drifts)
		if err == nil && len(drifts) > 0 {
			err = cli.WithCode(cli.ExitDrift, fmt.Errorf("the broker differs from the description: %s so far; statistics up to 10 s old", countOf(len(drifts), "difference")))
		}
		return err
	}
	return cmd
}

func printDrifts(out io.Writer, format string, drifts []topology.Drift) error {
	return cli.Emit(out, format, drifts, []string{"KIND", "NAME", "FIELD", "EXPECTED", "FOUND", "REMEDY"}, func(d topology.Drift) []string {
		return []string{d.Kind, d.Name, d.Field, d.Expected, d.Found, d.Remedy}
	})
}

func newTopologyDeleteCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "delete",
		Short: "Delete everything, unless a queue holds messages",
		Long: fmt.Sprintf(`Deletes the exchanges and queues, and prints them. Refuses, and leaves
everything as it was, while a queue holds messages, counting those that are
unacknowledged or dead-lettered but not yet confirmed, or while messages are parked
in Redis, or Redis does not say so. To be sure of the queues it closes the entrances
first and watches them for %v. Stop all bridges before: they would put
everything back.`, topology.SettleTime),
		Args: cli.UsageArgs(cobra.NoArgs),
	}
	format := cli.OutputFlag(cmd, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL)
	givenUp := cmd.Flags().StringArray("with-messages", nil, "delete this queue even if it holds messages; may be repeated")
	withParked := cmd.Flags().Bool("with-parked", false, "delete even if messages are parked in Redis, which stay there, or Redis cannot be asked")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		settings, err := a.Settings.Config()
		if err != nil {
			return err
		}
		management, err := connect.Management(settings)
		if err != nil {
			return err
		}
		options := topology.DeleteOptions{WithMessages: *givenUp, Check: nothingParked(a)}
		if *withParked {
			options.Check = nil
		}
		a.SayTarget(settings)
		var changes []topology.Change
		err = connect.WithBroker(cmd.Context(), a, settings, func(ctx context.Context, channels topology.Channels) (err error) {
			fmt.Fprintf(a.Err, "looking for messages, closing the entrances, then watching the queues for %v\n", topology.SettleTime)
			changes, err = connect.NeededTopology(ctx, a, settings).Delete(ctx, channels, management, options)
			return err
		})
		if held := (*topology.HeldError)(nil); errors.As(err, &held) {
			err = fmt.Errorf("%w (--with-messages)", err)
		}
		switch {
		case err == nil:
			return printChanges(a, *format, changes, "nothing to delete: nothing is there")
		case cmd.Context().Err() != nil:
			fmt.Fprintf(a.Err, "interrupted: %s\n", printable.Error(err)) // says what it has left behind
		}
		if len(changes) > 0 {
			err = errors.Join(err, printChanges(a, *format, changes, ""))
		}
		return err
	}
	return cmd
}

// nothingParked returns what fails where Redis has messages that are still to be promoted, or
// cannot tell.
func nothingParked(a *cli.App) func(context.Context) error {
	return func(ctx context.Context) error {
		return connect.WithPark(a, func(park *redisbridge.Park, _ cli.Config) error {
			stats, err := park.Stats(ctx, redisbridge.StatsOptions{Exact: true})
			if err != nil {
				return fmt.Errorf("whether messages are parked in Redis is not known: %w (--with-parked deletes all the same)", err)
			}
			n := 0
			for _, shard := range stats.Shards {
				n += shard.Waiting()
			}
			if n > 0 {
				return fmt.Errorf("messages are parked in Redis (%d): let them come out, cancel them, or leave them there (--with-parked)", n)
			}
			return nil
		})
	}
}

// printChanges prints changes, or for people what it means that there are none.
func printChanges(a *cli.App, format string, changes []topology.Change, nothing string) error {
	if len(changes) == 0 && format == cli.FormatTable {
		fmt.Fprintln(a.Err, nothing)
		return nil
	}
	return cli.Emit(a.Out, format, changes, []string{"ACTION", "KIND", "NAME", "DETAILS"}, func(c topology.Change) []string {
		return []string{c.Action, c.Kind, c.Name, c.Details}
	})
}

// countOf is a number of things.
func countOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
