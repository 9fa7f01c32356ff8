package waiting

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/connect"
	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/redisbridge"
)

func newGetCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get ID... | get - | get --group GROUP",
		Short: "Show where messages are now, and what is known of them",
		Long: `Shows of each message where it is, when it is due, which way it takes, and what has
happened to it. All of that is what Redis knows: a message that was published untracked
and went straight into a tier is unknown to it, as is one that was delivered and is
remembered no longer. Where several messages have the same ID, each is shown. Of its
attempts it knows from consumers that ask Redis about what comes, as consume does.

IDs are arguments or lines of standard input. The answers come in their order. The exit
code is 1 if one of them is unknown.`,
		Example: `  delaybridge get o-1
  delaybridge get o-1 o-2 -o json`,
		Args: idsArgs(a),
	}
	entry, group := entryFlag(cmd), groupFlag(cmd)
	format := cli.OutputFlag(cmd, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return connect.WithPark(a, func(park *redisbridge.Park, c cli.Config) error {
			park, err := parkOf(park, c, *entry)
			if err != nil {
				return err
			}
			if *group != "" {
				if args, err = idsOfGroup(cmd.Context(), park, *group); err != nil {
					return err
				}
			}
			return showEach(cmd.Context(), a, *format, args, park)
		})
	}
	return cmd
}

// idsOfGroup returns the IDs of the messages of a group, each once.
func idsOfGroup(ctx context.Context, park *redisbridge.Park, group string) ([]string, error) {
	seen := map[string]bool{}
	if err := park.Group(ctx, group, func(id string) bool {
		seen[id] = true
		return true
	}); err != nil {
		return nil, err
	}
	if len(seen) == 0 {
		return nil, fmt.Errorf("no message of group %q waits in Redis", group)
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

func showEach(ctx context.Context, a *cli.App, format string, ids []string, park *redisbridge.Park) error {
	out := &cli.Stream{Out: a.Out, Format: format}
	asked, unknown := 0, 0
	var lost, failed error
	eachID(ctx, a, ids, park.GetAll, func(id string, all []redisbridge.MessageState, err error) bool {
		if err != nil {
			lost = err
			if !connect.Hopeless(err) {
				lost, failed = nil, errors.Join(failed, err)
			}
			return lost == nil
		}
		asked++
		if len(all) == 0 {
			unknown++
			m := &redisbridge.MessageState{ID: id}
			return out.Add(m, tableOf(m))
		}
		for i := range all {
			if !out.Add(&all[i], tableOf(&all[i])) {
				return false
			}
		}
		return true
	})
	err := out.Close()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case lost != nil, failed != nil:
		return errors.Join(lost, failed)
	case err != nil:
		return err
	case unknown > 0:
		noteLoss(ctx, a, park)
		return fmt.Errorf("%d of %d IDs are unknown", unknown, asked)
	}
	return nil
}

// tableOf is a block of lines.
func tableOf(m *redisbridge.MessageState) string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(table, "%s\t%s\n", name, printable.Text(value))
		}
	}
	line("ID", m.ID)
	if m.Messages > 1 {
		line("MESSAGES", fmt.Sprintf("%d with this ID", m.Messages))
	}
	line("STATE", cmp.Or(string(m.State), "unknown"))
	line("WHERE", m.Where())
	if !m.Due.IsZero() {
		line("DUE", cli.InstantText(m.Due))
	}
	line("PATH", string(m.Path))
	if !m.PromoteAt.IsZero() {
		line("PROMOTED AT", cli.InstantText(m.PromoteAt))
	}
	if m.HasMessage() {
		line("KEY", m.Message.RoutingKey)
		line("ENTRY", m.Message.Entry)
		line("BODY", strings.TrimSpace(fmt.Sprintf("%d bytes %s", len(m.Message.Body), m.Message.ContentType)))
	}
	if attempts, known := m.Attempts(); known {
		line("ATTEMPTS", strconv.Itoa(attempts))
	}
	if m.Unreadable != nil {
		line("ERROR", m.Unreadable.Error())
	}
	for i, event := range m.History() {
		name := ""
		if i == 0 {
			name = "HISTORY"
		}
		fmt.Fprintf(table, "%s\t%s  %s\n", name, cli.InstantText(event.At), printable.Text(event.Event))
	}
	_ = table.Flush()
	return b.String()
}

// noteLoss says on standard error that Redis has lost messages of late, where it has: then
// that an ID is unknown says little.
func noteLoss(ctx context.Context, a *cli.App, park *redisbridge.Park) {
	loss, seen, err := park.Loss(ctx)
	if seen && err == nil {
		fmt.Fprintf(a.Err, "delaybridge: Redis has lost messages that were parked: %s\n", printable.Text(loss.String()))
	}
}
