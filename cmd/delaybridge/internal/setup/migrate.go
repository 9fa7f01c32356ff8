package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/connect"
	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/migration"
	"github.com/delaybridge/delaybridge/topology"
)

// migrateFlags are those of the command migrate.
type migrateFlags struct {
	definitions, vhost, rest string
	exchanges, entries       []string
	apply, skipMissing       bool
}

func newMigrateCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Move from the delayed-message plugin: entries in place of its exchanges",
		Long: `Finds the exchanges of type x-delayed-message, which the retired plugin
rabbitmq_delayed_message_exchange provides, and prints the entry that takes the
place of each, the bindings of its ready exchange, what does not carry over by
itself, and what to do next. It changes nothing unless --apply is given, and then
nothing of what there was: the old exchanges go on to work, and queues are bound
to both, so that publishers can move one after the other.

It reads the definitions from the management API, or from a file as rabbitmqctl
export_definitions and the management UI export it (--definitions). With --apply it
creates the topology and the bindings on the broker of amqp-url: the ready
exchanges first, then their bindings, and the entry exchanges last, so that
nothing enters that does not find its queue. Applying again changes nothing, and
goes on where an interrupted run has stopped.`,
		Example: `  delaybridge migrate                      # what would be created, from the broker itself
  delaybridge migrate --apply              # create it
  delaybridge migrate status               # who still publishes to the old exchanges, and what is inside
  delaybridge migrate --definitions old.json --write-rest rest.json
                                           # for a new broker: import rest.json there, then
  delaybridge migrate --definitions old.json --apply`,
		Args: cli.UsageArgs(cobra.NoArgs),
	}
	var f migrateFlags
	flags := cmd.Flags()
	flags.StringVar(&f.definitions, "definitions", "", "file of definitions to read instead of asking the management API")
	flags.StringVar(&f.vhost, "vhost", "", "virtual host of the file, where several have exchanges of the plugin")
	flags.StringArrayVar(&f.exchanges, "exchange", nil, "migrate this exchange, instead of all; may be repeated")
	flags.StringArrayVar(&f.entries, "entry", nil, "OLD=NEW: name of the entry for an exchange; may be repeated")
	flags.BoolVar(&f.apply, "apply", false, "create what is printed")
	flags.BoolVar(&f.skipMissing, "skip-missing", false, "with --apply: leave out bindings to queues and exchanges that do not exist")
	flags.StringVar(&f.rest, "write-rest", "", "with --definitions: write the file without the plugin's exchanges, for import where the plugin is not, to this new file")
	format := cli.OutputFlag(cmd, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		settings, err := a.Settings.Config()
		if err != nil {
			return err
		}
		if err := f.check(); err != nil {
			return cli.Usage(err)
		}
		return planMigration(cmd.Context(), a, settings, f, *format)
	}
	cmd.AddCommand(newMigrateStatusCommand(a))
	return cmd
}

func (f migrateFlags) check() error {
	var faults []error
	if f.definitions == "" {
		if f.vhost != "" {
			faults = append(faults, errors.New("--vhost is for --definitions; without, amqp-url names the virtual host"))
		}
		if f.rest != "" {
			faults = append(faults, errors.New("--write-rest is for --definitions"))
		}
	}
	if f.skipMissing && !f.apply {
		faults = append(faults, errors.New("--skip-missing is for --apply"))
	}
	for _, pair := range f.entries {
		if i := strings.LastIndex(pair, "="); i <= 0 || i == len(pair)-1 {
			faults = append(faults, fmt.Errorf("--entry %q: want OLD=NEW, the names of an exchange and of its entry", pair))
		}
	}
	return errors.Join(faults...)
}

// names are the entries chosen by --entry. The name of an exchange may have
// a '=', that of an entry has none.
func (f migrateFlags) names() map[string]string {
	names := map[string]string{}
	for _, pair := range f.entries {
		i := strings.LastIndex(pair, "=")
		names[pair[:i]] = pair[i+1:]
	}
	return names
}

func planMigration(ctx context.Context, a *cli.App, settings cli.Config, f migrateFlags, format string) error {
	management, err := connect.Management(settings)
	if err != nil {
		return err
	}
	definitions, err := readDefinitions(ctx, settings, f, management)
	if err != nil {
		return err
	}
	plan, err := definitions.Plan(migration.Options{
		Exchanges: f.exchanges, Names: f.names(), Topology: settings.Topology, Management: management.String(),
	})
	if err != nil {
		return err
	}
	if f.apply && len(plan.Exchanges) > 0 {
		if err := applyMigration(ctx, a, settings, plan, f.skipMissing); err != nil {
			return err
		}
	}
	if err := printMigration(a, format, plan); err != nil {
		return err
	}
	if left := plan.NotMigrated(); left != nil {
		return fmt.Errorf("exchanges that no entry can take the place of: %s (see above)", strings.Join(left, ", "))
	}
	return nil
}

func readDefinitions(ctx context.Context, settings cli.Config, f migrateFlags, management *topology.Management) (migration.Definitions, error) {
	if f.definitions == "" {
		uri, err := broker.ParseURI(settings.AMQPURL)
		if err != nil {
			return migration.Definitions{}, cli.Usage(err)
		}
		return migration.Live(ctx, management, uri.Vhost)
	}
	file, err := os.ReadFile(f.definitions)
	if err != nil {
		return migration.Definitions{}, cli.Usage(fmt.Errorf("--definitions: %w", err))
	}
	definitions, err := migration.Parse(file, f.vhost)
	if err != nil {
		return migration.Definitions{}, fmt.Errorf("--definitions %s: %w", f.definitions, err)
	}
	if f.rest != "" {
		if err := writeRest(f.rest, file); err != nil {
			return migration.Definitions{}, fmt.Errorf("--write-rest: %w", err)
		}
	}
	return definitions, nil
}

// writeRest writes the definitions without the plugin's exchanges to a new file,
// which only its owner may read: it has the hashes of passwords.
func writeRest(path string, file []byte) error {
	rest, err := migration.Rest(file)
	if err != nil {
		return err
	}
	target, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the user named it
	if err != nil {
		return cli.Usage(err)
	}
	_, err = target.Write(append(rest, '\n'))
	return errors.Join(err, target.Close())
}

// applyMigration creates what plan asks for. Nothing is created where something
// stands in the way.
func applyMigration(ctx context.Context, a *cli.App, settings cli.Config, plan *migration.Plan, skipMissing bool) error {
	described := settings.Described
	var err error
	if described.Entries, err = plan.Entries(described.Entries); err != nil {
		return err
	}
	wanted, err := topology.New(described)
	if err != nil {
		return cli.Usage(err)
	}
	return connect.WithBroker(ctx, a, settings, func(ctx context.Context, channels topology.Channels) error {
		changes, err := wanted.WithBindings(plan.Wanted()...).Apply(ctx, channels)
		var missing *topology.MissingError
		if errors.As(err, &missing) && skipMissing {
			plan.Without(missing)
			changes, err = wanted.WithBindings(plan.Wanted()...).Apply(ctx, channels)
		}
		switch {
		case errors.As(err, &missing):
			return fmt.Errorf("%w (on a new broker: import the definitions without the plugin's exchanges, which --write-rest writes; --skip-missing leaves these bindings out)", err)
		case err == nil:
			plan.Applied(changes)
		}
		return err
	})
}
