package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/audit"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/connect"
	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

func newTopologyPruneCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove what an earlier configuration has left, once it is empty; exits with 3 where something is left",
		Long: `Removes the tiers, lanes and entries that the configuration does not have, and that an
earlier one with the same prefix has left. Messages go on to flow. First it closes what
leads into a tier or lane, then it waits until that is empty, dead letters included, and
only then it deletes it. Of an entry it deletes the entry exchange first, and the ready
exchange when the inbox, Redis, and the tiers and lanes that entries share have none of its
messages any more. Beside other entries with traffic that takes as long as the longest tier.

It prints what it has deleted, what it waits for (wait), and what others use (keep):
an entry that gets messages, or for which queues are bound, stays unless --entry names
it. After that its publishers are refused with 404, and exchanges and queues that forward
to it drop what they would send there.

It refuses while a bridge has a configuration with what is to go, since that bridge would
put it back: replace all bridges first. It may be interrupted, and run again, at any time.
Without --wait it removes what is empty, which takes up to a minute.

Exit codes: 0 nothing is left, 3 something is left, 1 it has refused or failed.`,
		Example: `  delaybridge topology prune --dry-run
  delaybridge topology prune --wait 2h
  delaybridge topology prune --entry orders --wait 2h`,
		Args: cli.UsageArgs(cobra.NoArgs),
	}
	format := cli.OutputFlag(cmd, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL)
	reason := audit.ReasonFlag(cmd)
	var o topology.PruneOptions
	flags := cmd.Flags()
	wait := flags.String("wait", "0s", "how long to wait for what is not empty, such as 2h")
	flags.BoolVar(&o.DryRun, "dry-run", false, "print what would be deleted, and what it would wait for, and exit with 0")
	flags.StringArrayVar(&o.Entries, "entry", nil, "remove this entry even if it is in use; may be repeated")
	flags.BoolVar(&o.Force, "force", false, "do not ask whether bridges have another configuration, nor whether others publish into tiers and lanes")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		settings, err := a.Settings.Config()
		if err != nil {
			return err
		}
		var faults []error
		if o.Wait, err = wire.ParseDuration(*wait); err != nil || o.Wait < 0 {
			faults = append(faults, fmt.Errorf("--wait %q: use a duration such as 2h", *wait))
		}
		for _, entry := range o.Entries {
			if settings.Topology.HasEntry(entry) {
				faults = append(faults, fmt.Errorf("--entry %q is configured: take it out of the setting entries first", entry))
			}
		}
		if err := errors.Join(faults...); err != nil {
			return cli.Usage(err)
		}
		return prune(cmd.Context(), a, settings, o, *format, *reason)
	}
	return cmd
}

func prune(ctx context.Context, a *cli.App, settings cli.Config, o topology.PruneOptions, format, reason string) error {
	management, err := connect.Management(settings)
	if err != nil {
		return err
	}
	a.SayTarget(settings)
	bar := a.NewWorking("pruning")
	o.Progress = func(left []topology.Change) {
		bar.Describe(printable.Text(fmt.Sprintf("waiting for %d: %s: %s", len(left), left[0].Name, left[0].Details)))
	}
	var removed, left []topology.Change
	err = connect.UsePark(a, settings, connect.ParkUse{}, func(park *redisbridge.Park, _ cli.Config) error {
		o = park.PruneOptions(o)
		err := connect.WithBroker(ctx, a, settings, func(ctx context.Context, channels topology.Channels) (err error) {
			removed, left, err = connect.NeededTopology(ctx, a, settings).Prune(ctx, channels, management, o)
			return err
		})
		if len(removed) > 0 && !o.DryRun {
			audit.Record(ctx, a, park, redisbridge.AuditRecord{
				Action: audit.Prune, Details: namesOf(removed), Outcome: map[string]int{"deleted": len(removed)}, Reason: reason,
			}, err)
		}
		return err
	})
	bar.Clear()
	if refused := (*topology.BridgesError)(nil); errors.As(err, &refused) || errors.Is(err, redisbridge.ErrUnreachable) {
		err = fmt.Errorf("%w (--force prunes all the same)", err)
	}
	items := slices.Concat(removed, left)
	if err == nil || len(items) > 0 {
		err = errors.Join(err, printChanges(a, format, items, "nothing to prune: nothing is left of another configuration"))
	}
	if err == nil && len(left) > 0 && !o.DryRun {
		err = cli.WithCode(cli.ExitDrift, fmt.Errorf("not everything could be deleted (%d left): run it again, or with --wait", len(left)))
	}
	return err
}

// namesOf names what was changed.
func namesOf(changes []topology.Change) string {
	names := make([]string, len(changes))
	for i, c := range changes {
		names[i] = c.Kind + " " + c.Name
	}
	return strings.Join(names, ", ")
}
