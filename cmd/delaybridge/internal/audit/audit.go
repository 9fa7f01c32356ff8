// Package audit has the audit log as commands see it: what each writes there of what it has
// changed, and the command that prints it. Redis keeps the log.
package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/connect"
	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/redisbridge"
)

// Command returns the command audit.
func Command(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Print who has cancelled, rescheduled, imported, replayed, removed or erased what, and why",
		Long: `Prints the audit log, which Redis keeps: a record for each command line and each command
over AMQP that changed something, the newest last. The last 10,000 records are kept, and
some more. A record names up to 20 IDs, and says how many there were.

A record says who acted. For a command with the property user-id, RabbitMQ has checked that
(known_by is connection). For a command line it is the user and the host that the process
reports (known_by is machine). The log has no records of programs that use the packages, or
of relays. A user who may write under the prefix in Redis may also write records. Operators
cannot change the lines that bridges log for commands: collect these if that matters.

A record is written after the action. Before what cannot be undone, quarantine purge and
erase, there is one more, which says begun.`,
		Example: `  delaybridge audit --since 1d --action cancel
  delaybridge audit --id o-1 -o json
  delaybridge audit --follow >> audit.jsonl`,
		Args: cli.UsageArgs(cobra.NoArgs),
	}
	var f redisbridge.AuditFilter
	since := cmd.Flags().String("since", "", "first instant, such as 2030-01-01T08:00:00Z, or how long ago, such as 1d")
	cmd.Flags().StringVar(&f.Action, "action", "", "only this one: "+strings.Join(Actions(), ", "))
	cmd.Flags().StringVar(&f.ID, "id", "", "only records that name this ID")
	cmd.Flags().IntVar(&f.Limit, "limit", 0, "how many of the last records (default: no limit)")
	cmd.Flags().BoolVar(&f.Follow, "follow", false, "go on with what is recorded from now on, until interrupted; prints jsonl unless -o says table")
	format := cli.OutputFlag(cmd, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if f.Follow && !cmd.Flags().Changed("output") {
			*format = cli.FormatJSONL
		}
		var err error
		if f.Since, err = cli.ParseSince(*since, time.Now()); err != nil {
			return cli.Usage(fmt.Errorf("--since: %w", err))
		}
		switch {
		case f.Action != "" && !slices.Contains(Actions(), f.Action):
			return cli.Usage(fmt.Errorf("--action %q: use %s", f.Action, strings.Join(Actions(), ", ")))
		case f.Limit < 0:
			return cli.Usage(fmt.Errorf("--limit %d: must not be negative", f.Limit))
		case f.Follow && *format == cli.FormatJSON:
			return cli.Usage(errors.New("--follow does not end, and JSON has to: use -o jsonl"))
		}
		return connect.WithPark(a, func(park *redisbridge.Park, _ cli.Config) error {
			return printRecords(cmd.Context(), a, park, f, *format)
		})
	}
	return cmd
}

const row = "%-20s  %-20s  %-18s  %-30s  %-30s  %s"

func printRecords(ctx context.Context, a *cli.App, park *redisbridge.Park, f redisbridge.AuditFilter, format string) error {
	out := &cli.Stream{Out: a.Out, Format: format, Header: fmt.Sprintf(row, "AT", "WHO", "ACTION", "WHAT", "OUTCOME", "REASON")}
	for r, err := range park.AuditLog(ctx, f) {
		if err != nil {
			return errors.Join(out.Close(), err)
		}
		if !out.Add(r, rowOf(r)) {
			break
		}
	}
	if out.N == 0 && format == cli.FormatTable {
		fmt.Fprintln(a.Err, "the audit log has no record of that")
	}
	return out.Close()
}

func rowOf(r redisbridge.AuditRecord) string {
	return fmt.Sprintf(row, r.At.Format(time.RFC3339), printable.Text(whoText(r)), printable.Text(r.Action),
		printable.Text(whatText(r)), printable.Text(outcomeText(r)), printable.Text(r.Reason))
}

func whoText(r redisbridge.AuditRecord) string {
	if r.Via == "command" {
		return cmp.Or(r.Who, "unknown") + ", over AMQP"
	}
	return cmp.Or(r.Who, "unknown")
}

// whatText says which messages an action was about.
func whatText(r redisbridge.AuditRecord) string {
	var parts []string
	if len(r.IDs) > 0 {
		parts = append(parts, strings.Join(r.IDs, " "))
	}
	if more := r.Named - len(r.IDs); more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	if r.Group != "" {
		parts = append(parts, "group "+r.Group)
	}
	if r.Entry != "" {
		parts = append(parts, "entry "+r.Entry)
	}
	if r.Details != "" {
		parts = append(parts, r.Details)
	}
	return cmp.Or(strings.Join(parts, ", "), "-")
}

func outcomeText(r redisbridge.AuditRecord) string {
	var parts []string
	if r.Begun {
		parts = append(parts, "begun")
	}
	for _, what := range slices.Sorted(maps.Keys(r.Outcome)) {
		parts = append(parts, fmt.Sprintf("%s %d", what, r.Outcome[what]))
	}
	if r.Error != "" {
		parts = append(parts, "error: "+r.Error)
	}
	return cmp.Or(strings.Join(parts, ", "), "-")
}
