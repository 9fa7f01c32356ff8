package waiting

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/connect"
	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

func newListCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list [--from WHEN] [--until WHEN] [--key KEY] [--id-prefix TEXT] [--limit N]",
		Short: "List the messages that wait, the one that is due next first",
		Long: `Lists messages that are parked, being promoted or in their lane, in the order in which
they are due; those that are overdue come first. Messages that were published untracked,
and wait in tiers or in the inbox, are the broker's: 'delaybridge stats' counts them, and
an empty list says on standard error how many there are.

It reads small pages, so that Redis has time for others however many there are, and no
more of them than are printed. What moves meanwhile is listed as it was when its page
was read.

WHEN is an instant, such as 2030-01-01T08:00:00Z, or a duration from now, such as 10m.`,
		Example: `  delaybridge list --limit 10
  delaybridge list --until 10m --key order.unpaid
  delaybridge list --id-prefix tenant-7- -o jsonl | jq -r .id | delaybridge cancel -`,
		Args: cli.UsageArgs(cobra.NoArgs),
	}
	var from, until, state string
	var filter redisbridge.Filter
	var limit int
	flags := cmd.Flags()
	flags.StringVar(&from, "from", "", "list what is due from then on")
	flags.StringVar(&until, "until", "", "list what is due before then")
	flags.StringVar(&filter.RoutingKey, "key", "", "list messages with this routing key")
	flags.StringVar(&filter.IDPrefix, "id-prefix", "", "list messages whose IDs begin so")
	flags.StringVar(&state, "state", "", "list messages that are parked, promoting or in-lane")
	flags.IntVar(&limit, "limit", 0, "end after this many messages (default: all)")
	format := cli.OutputFlag(cmd, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var err error
		now := time.Now()
		if filter.From, err = parseInstant("--from", from, now); err != nil {
			return cli.Usage(err)
		}
		if filter.Until, err = parseInstant("--until", until, now); err != nil {
			return cli.Usage(err)
		}
		if limit < 0 {
			return cli.Usage(fmt.Errorf("--limit %d: must not be negative", limit))
		}
		states := map[string]redisbridge.State{
			"": "", "parked": redisbridge.StateParked, "promoting": redisbridge.StatePromoting, "in-lane": redisbridge.StateInLane,
		}
		var known bool
		if filter.State, known = states[state]; !known {
			return cli.Usage(fmt.Errorf("--state %q: use parked, promoting or in-lane", state))
		}
		return connect.WithPark(a, func(park *redisbridge.Park, c cli.Config) error {
			n, err := listMessages(cmd.Context(), a, *format, park, filter, limit)
			if err == nil && n == 0 {
				tellUnlisted(cmd.Context(), a, c)
			}
			return err
		})
	}
	return cmd
}

// parseInstant reads an instant, or a duration from now. Without text it is zero.
func parseInstant(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if instant, err := time.Parse(time.RFC3339, text); err == nil {
		return instant, nil
	}
	d, err := wire.ParseDuration(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: %q is neither an instant, such as 2030-01-01T08:00:00Z, nor a duration, such as 10m", flag, text)
	}
	return now.Add(d), nil
}

// listedMessage is what `list` prints for each message.
type listedMessage struct {
	ID        string       `json:"id"`
	Due       time.Time    `json:"due"`
	State     string       `json:"state"`
	Key       string       `json:"key"`
	Entry     string       `json:"entry,omitempty"`
	Path      message.Path `json:"path"`
	PromoteAt time.Time    `json:"promote_at,omitzero"`
	Published time.Time    `json:"published,omitzero"`
	Version   int          `json:"version,omitempty"`
	Bytes     int          `json:"bytes"`
	Error     string       `json:"error,omitempty"`
}

const listRow = "%-24s  %-24s  %-14s  %-20s  %s"

func (m *listedMessage) row() string {
	return fmt.Sprintf(listRow, cli.InstantText(m.Due), printable.Text(m.ID), printable.Text(m.State), printable.Text(m.Key), printable.Text(string(m.Path)))
}

func listMessages(ctx context.Context, a *cli.App, format string, park *redisbridge.Park, filter redisbridge.Filter, limit int) (n int, _ error) {
	out := &cli.Stream{Out: a.Out, Format: format, Header: fmt.Sprintf(listRow, "DUE", "ID", "STATE", "KEY", "PATH")}
	var failed error
	for e, err := range park.List(ctx, filter) {
		if err != nil {
			failed = err
			break
		}
		m := listedMessage{
			ID: e.ID, Due: e.Due.UTC(), State: string(e.State), Key: e.Message.RoutingKey, Entry: e.Message.Entry, Path: e.Path,
			PromoteAt: e.PromoteAt.UTC(), Published: e.Published.UTC(), Version: e.Version, Bytes: e.Bytes,
		}
		if e.Unreadable != nil {
			m.Error = e.Unreadable.Error()
		}
		if !out.Add(m, m.row()) || out.N == limit {
			break
		}
	}
	err := out.Close()
	switch {
	case ctx.Err() != nil:
		return out.N, ctx.Err()
	case failed != nil:
		return out.N, failed
	}
	return out.N, err
}

// unlistedPatience is how long an empty list waits for the broker, which it needs for a note
// alone.
const unlistedPatience = 3 * time.Second

// tellUnlisted says how many messages wait where Redis does not know them.
func tellUnlisted(ctx context.Context, a *cli.App, c cli.Config) {
	ctx, cancel := context.WithTimeout(ctx, unlistedPatience)
	defer cancel()
	c.ConnectTimeout = min(c.ConnectTimeout, unlistedPatience)
	c.LogLevel = slog.LevelError + 1 // the note says it
	n := 0
	err := connect.WithBrokerAs(ctx, a, c, "list", "a command counts what waits in the tiers", func(ctx context.Context, channels topology.Channels) error {
		counts, err := c.Topology.Count(ctx, channels)
		for _, inTier := range counts.Tiers {
			n += inTier
		}
		n += counts.Queues[c.Topology.Inbox()]
		return err
	})
	switch {
	case err != nil:
		fmt.Fprintf(a.Err, "delaybridge: nothing is listed; what waits in tiers and in the inbox could not be counted: %s\n", printable.Text(cli.OneLine(err)))
	case n > 0:
		fmt.Fprintf(a.Err, "delaybridge: nothing is listed; %d messages wait in tiers or in the inbox, where Redis does not know them\n", n)
	}
}
