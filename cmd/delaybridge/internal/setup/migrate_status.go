package setup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/connect"
	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/migration"
	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/topology"
)

const (
	defaultSilentFor      = 15 * time.Second
	defaultStatusInterval = 5 * time.Second // of the broker's statistics
	leastStatusInterval   = 200 * time.Millisecond
)

// migrateStatusFlags are those of the command migrate status.
type migrateStatusFlags struct {
	migrateFlags // exchanges and entries
	nodes        []string
	watch        bool

	interval, silentFor, longest time.Duration
}

func newMigrateStatusCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show who still publishes to the plugin's exchanges, and what is inside; exits with 3 until that is over",
		Long: `Shows for each exchange of the delayed-message plugin how many messages a second come in, and
how many come to the entry exchange that takes its place; who publishes; how many messages are
delayed inside, and how fast that number falls; and an estimate of when it is empty. It only
reads.

It looks for 15 seconds (--silent-for), since the broker's statistics are up to ten seconds old,
and prints what it has seen. It exits with 0 if every exchange is empty and got no message in that
time, and with 3 otherwise. With --watch it goes on until that is so, and then exits with 0. On a
terminal it draws each look. Elsewhere it prints the last one, or each one with -o jsonl.

STATE is one of these:
  published  messages come in
  watching   no message has come in so far; --silent-for is not over yet
  holds      no message comes in any more; some are still inside
  empty      no message comes in, and none is inside
  unknown    the broker does not tell enough

The plugin does not tell when its messages are due. The estimate therefore rests on two things: how
fast the number inside has fallen since the last message came in, and the longest delay. That is 49
days, unless --longest-delay gives a shorter one. A broker tells who publishes to which exchange
only with rates_mode detailed; otherwise the command prints all connections of the virtual host
that publish. Each node of a cluster tells only what it holds itself: name the other nodes with
--node.

The user needs the tag monitoring.`,
		Example: `  delaybridge migrate status
  delaybridge migrate status --watch --longest-delay 2d
  delaybridge migrate status --watch --silent-for 1h -o jsonl && echo switch the plugin off
  delaybridge migrate status --node http://user:password@rabbit-2:15672`,
		Args: cli.UsageArgs(cobra.NoArgs),
	}
	var f migrateStatusFlags
	flags := cmd.Flags()
	flags.StringArrayVar(&f.exchanges, "exchange", nil, "look at this exchange, instead of all; may be repeated")
	flags.StringArrayVar(&f.entries, "entry", nil, "OLD=NEW, as for migrate; may be repeated")
	flags.StringArrayVar(&f.nodes, "node", nil, "URL of the management API of another node of the cluster, as management-url; may be repeated")
	flags.BoolVar(&f.watch, "watch", false, "go on until every exchange is empty and silent")
	cli.DurationFlag(flags, &f.silentFor, "silent-for", defaultSilentFor, "how long an exchange must have got no message")
	cli.DurationFlag(flags, &f.interval, "interval", defaultStatusInterval, "how long from one look to the next")
	cli.DurationFlag(flags, &f.longest, "longest-delay", 0, "longest delay that publishers use, for the estimate")
	format := cli.OutputFlag(cmd, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		settings, err := a.Settings.Config()
		if err != nil {
			return err
		}
		faults := []error{f.check(), cli.NotNegative(flags)}
		if f.interval < leastStatusInterval {
			faults = append(faults, fmt.Errorf("--interval %v: use %v or more", f.interval, leastStatusInterval))
		}
		if f.silentFor < f.interval {
			faults = append(faults, fmt.Errorf("--silent-for %v: use --interval, %v, or more", f.silentFor, f.interval))
		}
		if f.longest > migration.LongestDelay {
			faults = append(faults, fmt.Errorf("--longest-delay %v: the plugin has none longer than %v", f.longest, migration.LongestDelay))
		}
		if err := errors.Join(faults...); err != nil {
			return cli.Usage(err)
		}
		s, err := newMigrationStatus(a, settings, f, *format)
		if err != nil {
			return err
		}
		return s.run(cmd.Context())
	}
	return cmd
}

// migrationStatus is one call of the command.
type migrationStatus struct {
	*cli.App
	migrateStatusFlags
	settings cli.Config
	format   string
	nodes    []*topology.Management
	history  *migration.History
	asked    []string // the names of nodes
}

func newMigrationStatus(a *cli.App, settings cli.Config, f migrateStatusFlags, format string) (*migrationStatus, error) {
	management, err := connect.Management(settings)
	if err != nil {
		return nil, err
	}
	s := &migrationStatus{
		App: a, migrateStatusFlags: f, settings: settings, format: format, nodes: []*topology.Management{management},
		history: &migration.History{SilentFor: f.silentFor, LongestDelay: f.longest, Entries: map[string]string{}},
	}
	for _, rawURL := range f.nodes {
		node, err := topology.NewManagement(rawURL, management.VHost())
		if err != nil {
			return nil, cli.Usage(fmt.Errorf("--node %s: %w", broker.Redact(rawURL), err))
		}
		s.nodes = append(s.nodes, node)
	}
	return s, nil
}

// begin finds the exchanges to look at, and their entries.
func (s *migrationStatus) begin(ctx context.Context) error {
	definitions := migration.Definitions{VHost: s.nodes[0].VHost()}
	if err := s.nodes[0].Get(ctx, "exchanges/{vhost}", &definitions.Exchanges); err != nil {
		return err
	}
	plan, err := definitions.Plan(migration.Options{
		Exchanges: s.exchanges, Names: s.names(), Topology: s.settings.Topology, Management: s.nodes[0].String(),
	})
	if err != nil {
		return err
	}
	for _, m := range plan.Exchanges {
		s.history.Entries[m.Exchange] = m.EntryExchange
	}
	return nil
}

func (s *migrationStatus) run(ctx context.Context) error {
	shown := s.NewWorking("looking at the plugin's exchanges")
	defer shown.Clear()
	if err := s.begin(ctx); err != nil {
		return err
	}
	drawn := s.watch && s.format == cli.FormatTable && cli.IsTerminal(s.Out)
	ticker := time.NewTicker(s.interval)
	defer ticker.Stop()
	began := time.Now()
	for looks := 0; ; {
		err := s.look(ctx)
		switch {
		case err == nil:
			looks++
		case looks == 0 || !s.watch || !errors.Is(err, topology.ErrUnreachable):
			return err
		default: // a node that restarts, perhaps
			shown.Describe(printable.Error(err))
		}
		status := s.status()
		last := err == nil && (len(status.Exchanges) == 0 || status.Done || !s.watch && looks > 1 && time.Since(began) >= s.silentFor)
		if last || drawn || s.watch && s.format == cli.FormatJSONL && err == nil {
			shown.Clear()
			if drawn {
				fmt.Fprint(cli.Raw(s.Out), "\x1b[H\x1b[2J") // in place of the last picture
			}
			if err := s.print(status, err); err != nil {
				return err
			}
		}
		if last {
			return unfinished(status)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

func (s *migrationStatus) look(ctx context.Context) error {
	look, err := migration.TakeLook(ctx, s.nodes, s.history.Entries, s.exchanges)
	if err != nil {
		return err
	}
	for i, node := range look.Nodes {
		if s.asked != nil && s.asked[i] != node {
			return fmt.Errorf("%w: %s leads to several nodes, %s and %s, each of which holds messages of its own: give the address of each", migration.ErrInput, s.nodes[i], s.asked[i], node)
		}
	}
	s.asked = look.Nodes
	s.history.Add(look)
	return nil
}

func (s *migrationStatus) status() migration.Status {
	status := s.history.Status()
	status.VHost = s.nodes[0].VHost()
	return status
}

// unfinished says what keeps the plugin's exchanges in use.
func unfinished(status migration.Status) error {
	if status.Done {
		return nil
	}
	var parts []string
	for _, p := range status.Exchanges {
		if p.State != migration.StateEmpty {
			parts = append(parts, p.Exchange+" ("+p.State+")")
		}
	}
	return cli.WithCode(cli.ExitDrift, fmt.Errorf("the plugin is still needed: %s", strings.Join(parts, ", ")))
}
