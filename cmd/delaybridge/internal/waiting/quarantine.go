package waiting

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/audit"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/connect"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/telemetry"
	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/internal/quarantine"
	"github.com/delaybridge/delaybridge/redisbridge"
)

func newQuarantineCommand(a *cli.App) *cobra.Command {
	parent := &cobra.Command{
		Use:   "quarantine",
		Short: "List, show, replay and purge the messages that no consumer could process",
		Long: `Works on the messages in quarantine: those that a handler has rejected or failed
to handle too often, those that kill their consumer again and again, and those that
the bridge cannot read. Name them by ID, or choose them by flags, all of which have
to apply. While a command runs, others do not see the messages that it has looked at.

Each command goes over what is there when it begins, and can be interrupted at any
point without losing a message.`,
		Example: `  delaybridge quarantine list --queue billing --since 2030-01-01T08:00:00Z
  delaybridge quarantine show o-1
  delaybridge quarantine replay --error 'connection refused'
  delaybridge quarantine purge --id-prefix test- -o jsonl > removed.jsonl`,
	}
	cli.Group(parent)
	parent.AddCommand(
		newQuarantineListCommand(a),
		newQuarantineShowCommand(a),
		newQuarantineReplayCommand(a),
		newQuarantinePurgeCommand(a),
	)
	return parent
}

func newQuarantineListCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list [ID]...",
		Short: "Print a line for each message, and leave it there",
	}
	choice := newQuarantineChoice(cmd, false)
	format := cli.OutputFlag(cmd, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL)
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		return inQuarantine(cmd.Context(), a, choice, ids, nil, func(ctx context.Context, q *quarantine.Quarantine, f quarantine.Filter) error {
			p := newItemPrinter(a.Out, *format, summaryRow, "ID", "QUEUE", "ROUTING KEY", "ATTEMPTS", "SINCE", "ERROR")
			err := q.Look(ctx, f, choice.limit, func(m *quarantine.Message) error {
				choice.found(m)
				return p.item(summaryOf(m), summaryCells(m))
			})
			return errors.Join(err, p.end(), choice.missing(err))
		})
	}
	return cmd
}

func newQuarantineShowCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show ID... | show FLAGS",
		Short: "Print all that is known of messages: error, stack, history, headers, body",
	}
	choice := newQuarantineChoice(cmd, true)
	format := cli.OutputFlag(cmd, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL)
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		return inQuarantine(cmd.Context(), a, choice, ids, nil, func(ctx context.Context, q *quarantine.Quarantine, f quarantine.Filter) error {
			p := newItemPrinter(a.Out, *format, detailsRow)
			err := q.Look(ctx, f, choice.limit, func(m *quarantine.Message) error {
				choice.found(m)
				return p.item(detailsOf(m), []any{detailsText(m)})
			})
			return errors.Join(err, p.end(), choice.missing(err))
		})
	}
	return cmd
}

func newQuarantineReplayCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "replay ID... | replay FLAGS",
		Short: "Have messages handled again, and take them out once the broker has confirmed that",
		Long: `Sends messages to the queue they come from, and to no other, or with --to ready to
the ready exchange, and so to every queue that is bound for their routing key. What
comes from no queue goes there in any case, except what expired in the inbox while no
bridge was there: that is delayed again. Attempts count anew; the history stays.

A message leaves quarantine once the broker has confirmed its copy. If this is killed
in between, the message is in both places: handled twice perhaps, never lost. Exits
with 1 where a message could not be replayed; it stays.`,
	}
	choice := newQuarantineChoice(cmd, true)
	to := cmd.Flags().String("to", "queue", "queue: the one it comes from; ready: the ready exchange")
	incomplete := cmd.Flags().Bool("incomplete", false, "also messages with headers that cannot be decoded, without these")
	format := cli.OutputFlag(cmd, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL)
	reason := audit.ReasonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		targets := map[string]quarantine.Target{"queue": quarantine.ToQueue, "ready": quarantine.ToReady}
		target, ok := targets[*to]
		if !ok {
			return cli.Usage(fmt.Errorf("--to %q: use queue or ready", *to))
		}
		record := &redisbridge.AuditRecord{Action: audit.Replay, Reason: *reason}
		return inQuarantine(cmd.Context(), a, choice, ids, record, func(ctx context.Context, q *quarantine.Quarantine, f quarantine.Filter) error {
			p := newItemPrinter(a.Out, *format, replayRow, "ID", "TO", "RESULT")
			failed := 0
			err := q.Replay(ctx, f, quarantine.Replaying{To: target, Limit: choice.limit, Incomplete: *incomplete}, func(r quarantine.Replayed) error {
				choice.found(r.Message)
				audit.NameIn(record, r.ID)
				if r.Err != nil {
					failed++
					audit.CountIn(record, "failed", 1)
				} else {
					audit.CountIn(record, "replayed", 1)
				}
				return p.item(replayedItem(r))
			})
			if failed > 0 && err == nil {
				err = fmt.Errorf("messages that could not be replayed, and are in quarantine still: %d", failed)
			}
			return errors.Join(err, p.end(), choice.missing(err))
		})
	}
	return cmd
}

func newQuarantinePurgeCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "purge ID... | purge FLAGS",
		Short: "Remove messages for good, and print what was removed",
		Long: `Removes messages for good. Each is printed before it is removed; with -o jsonl that
is all there is of it, body and headers included. To remove everything takes --all
and --yes.`,
	}
	choice := newQuarantineChoice(cmd, true)
	yes := cmd.Flags().Bool("yes", false, "with --all: yes, everything")
	format := cli.OutputFlag(cmd, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL)
	reason := audit.ReasonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		if choice.all && !*yes {
			return cli.Usage(errors.New("--all removes everything: say so with --yes, or choose messages"))
		}
		record := &redisbridge.AuditRecord{Action: audit.Purge, Reason: *reason}
		return inQuarantine(cmd.Context(), a, choice, ids, record, func(ctx context.Context, q *quarantine.Quarantine, f quarantine.Filter) error {
			p := newItemPrinter(a.Out, *format, summaryRow, "ID", "QUEUE", "ROUTING KEY", "ATTEMPTS", "SINCE", "ERROR")
			err := q.Purge(ctx, f, choice.limit, func(m *quarantine.Message) error {
				choice.found(m)
				audit.NameIn(record, m.ID)
				audit.CountIn(record, "removed", 1)
				return p.item(detailsOf(m), summaryCells(m))
			})
			return errors.Join(err, p.end(), choice.missing(err))
		})
	}
	return cmd
}

// quarantineChoice is what a command line says of which messages it means.
type quarantineChoice struct {
	filter       quarantine.Filter
	since, until string
	all          bool
	limit        int
	must         bool // choose: without IDs and flags it takes --all

	n    int             // messages found
	seen map[string]bool // IDs that were named, and whether they were found
}

func newQuarantineChoice(cmd *cobra.Command, must bool) *quarantineChoice {
	c := &quarantineChoice{must: must}
	flags := cmd.Flags()
	flags.StringVar(&c.filter.IDPrefix, "id-prefix", "", "messages whose ID begins like this")
	flags.StringVar(&c.filter.Key, "key", "", "messages with this routing key")
	flags.StringVar(&c.filter.Queue, "queue", "", "messages that come from this queue")
	flags.StringVar(&c.filter.Error, "error", "", "messages with this text in their error")
	flags.StringVar(&c.since, "since", "", "in quarantine since this instant or later, such as 2030-01-01T08:00:00Z, or not longer than this, such as 1h")
	flags.StringVar(&c.until, "until", "", "in quarantine before this instant, or for longer than this")
	flags.IntVar(&c.limit, "limit", 0, "at most this many messages (default: no limit)")
	if must {
		flags.BoolVar(&c.all, "all", false, "all messages")
	}
	return c
}

// check returns the filter, or every mistake in it.
func (c *quarantineChoice) check(ids []string) (quarantine.Filter, error) {
	var faults []error
	now := time.Now()
	instant := func(name, text string) time.Time {
		t, err := cli.ParseSince(text, now)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
		}
		return t
	}
	f := c.filter
	f.IDs, f.Since, f.Until = ids, instant("--since", c.since), instant("--until", c.until)
	if c.limit < 0 {
		faults = append(faults, fmt.Errorf("--limit %d: must not be negative", c.limit))
	}
	switch {
	case c.must && f.Empty() && !c.all && len(faults) == 0:
		faults = append(faults, errors.New("choose messages by ID or by flags, or say --all"))
	case c.all && !f.Empty():
		faults = append(faults, errors.New("--all and a choice exclude each other"))
	}
	c.seen = map[string]bool{}
	for _, id := range ids {
		c.seen[id] = false
	}
	return f, errors.Join(faults...)
}

func (c *quarantineChoice) found(m *quarantine.Message) {
	c.n++
	if _, named := c.seen[m.ID]; named {
		c.seen[m.ID] = true
	}
}

// missing returns an error that names the IDs that were not found, where the command
// has looked at everything.
func (c *quarantineChoice) missing(err error) error {
	if err != nil || c.limit > 0 && c.n >= c.limit {
		return nil
	}
	maps.DeleteFunc(c.seen, func(_ string, found bool) bool { return found })
	if len(c.seen) == 0 {
		return nil
	}
	return fmt.Errorf("no message in quarantine has this ID: %s", strings.Join(slices.Sorted(maps.Keys(c.seen)), ", "))
}

// words say what was chosen.
func (c *quarantineChoice) words() string {
	var words []string
	for _, one := range []struct{ what, text string }{
		{"ID prefix", c.filter.IDPrefix}, {"routing key", c.filter.Key}, {"queue", c.filter.Queue}, {"error", c.filter.Error},
		{"since", c.since}, {"until", c.until},
	} {
		if one.text != "" {
			words = append(words, fmt.Sprintf("%s %q", one.what, one.text))
		}
	}
	if c.all {
		words = append(words, "all")
	}
	if c.limit > 0 {
		words = append(words, fmt.Sprintf("%d at most", c.limit))
	}
	return strings.Join(words, ", ")
}

// inQuarantine does work with the settings and the choice of a command line. Where it changes something, the
// record that it makes is written to the audit log; without Redis it goes on with a warning.
func inQuarantine(ctx context.Context, a *cli.App, choice *quarantineChoice, ids []string, record *redisbridge.AuditRecord,
	work func(context.Context, *quarantine.Quarantine, quarantine.Filter) error,
) error {
	settings, err := a.Settings.Config()
	if err != nil {
		return err
	}
	f, err := choice.check(ids)
	if err != nil {
		return cli.Usage(err)
	}
	if settings.LogLevel == slog.LevelInfo {
		settings.LogLevel = slog.LevelWarn // that a short command has connected goes without saying
	}
	if record != nil {
		a.SayTarget(settings)
	}
	log := a.Logger(settings)
	provider, flush, err := telemetry.OpenTraces(ctx, a, "quarantine", log)
	if err != nil {
		return err
	}
	defer flush()
	q, err := quarantine.New(quarantine.Config{
		URL: settings.AMQPURL, Topology: settings.Topology, GiveUpAfter: settings.ConnectTimeout, Logger: log, TracerProvider: provider,
	})
	if err != nil {
		return err
	}
	written := func(error) {}
	if record != nil {
		var closePark func()
		if written, closePark = recordingQuarantine(ctx, a, settings, log, choice, ids, record); closePark != nil {
			defer closePark()
		}
	}
	err = work(ctx, q, f)
	written(err)
	if err != nil {
		return err
	}
	if choice.n == 0 {
		fmt.Fprintln(a.Err, "no message in quarantine matches")
	}
	return nil
}

// recordingQuarantine returns what writes the record of a command, once its outcome is in there. What removes
// messages has a record before, too.
func recordingQuarantine(ctx context.Context, a *cli.App, c cli.Config, log *slog.Logger, choice *quarantineChoice, ids []string,
	record *redisbridge.AuditRecord,
) (written func(error), closePark func()) {
	record.Details = choice.words()
	park, closePark, err := connect.OpenPark(c, log, connect.ParkUse{})
	if err != nil {
		fmt.Fprintf(a.Err, "warning: this is not recorded in the audit log: %s\n", cli.WithoutSecrets(printable.Error(err)))
		return func(error) {}, nil
	}
	if record.Action == audit.Purge {
		begun := *record
		begun.Begun = true
		for _, id := range ids {
			audit.NameIn(&begun, id)
		}
		audit.Record(ctx, a, park, begun, nil)
	}
	return func(err error) { audit.Record(ctx, a, park, *record, err) }, closePark
}
