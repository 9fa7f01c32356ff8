package waiting

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/audit"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/connect"
	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/redisbridge"
)

func newCancelCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel ID... | cancel - | cancel --group GROUP",
		Short: "Cancel messages, and say of each whether that came in time",
		Long: `Cancels messages that are not delivered yet, wherever they are. One that is parked
leaves Redis. One that the broker has is dropped when it comes out, by a consumer that
asks Redis, as 'delaybridge consume' does. Where several messages have the same ID, all
are cancelled. Cancelling again is harmless.

If Redis does not know an ID, its message may be in a tier or in the inbox. The answer is
"recorded": it is dropped when it arrives, until the instant that is printed. A consumer
that does not ask Redis handles it nevertheless.

IDs are arguments or lines of standard input. The answers come in their order. With --group
it cancels what waits of all messages that were published with that header x-delay-group
and that Redis has, and counts them.

The exit code is 0 if every message was cancelled, by now or before, or recorded, and 1
if one was too late.`,
		Example: `  delaybridge cancel o-1 o-2
  delaybridge list --key order.unpaid -o jsonl | jq -r .id | delaybridge cancel - -o jsonl`,
		Args: idsArgs(a),
	}
	entry, group := entryFlag(cmd), groupFlag(cmd)
	format := cli.OutputFlag(cmd, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL)
	reason := audit.ReasonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return connect.WithTracedPark(cmd.Context(), a, "cancel", func(park *redisbridge.Park, c cli.Config) error {
			park, err := parkOf(park, c, *entry)
			if err != nil {
				return err
			}
			record := redisbridge.AuditRecord{Action: audit.Cancel, Entry: *entry, Group: *group, Reason: *reason}
			if *group != "" {
				change, failed := park.CancelGroup(cmd.Context(), *group)
				err = tellOfGroup(a, *format, cancelling(), change, failed, &record)
			} else {
				err = changeEach(cmd.Context(), a, *format, args, cancelling(), &record, park.Cancel)
			}
			audit.Record(cmd.Context(), a, park, record, err)
			return err
		})
	}
	return cmd
}

// changing is what cancel and reschedule differ in.
type changing struct {
	done string                          // the outcome of what was asked for
	good func(redisbridge.Outcome) bool  // whether an outcome is as good as that
	text func(redisbridge.Change) string // the outcome in words
}

func cancelling() changing {
	return changing{
		done: "cancelled",
		good: func(o redisbridge.Outcome) bool { return o != redisbridge.OutcomeDelivered },
		text: func(c redisbridge.Change) string {
			switch c.Outcome {
			case redisbridge.OutcomeDone:
				return "cancelled" + messagesText(c)
			case redisbridge.OutcomeCancelledBefore:
				return "cancelled before, at " + cli.InstantText(c.At)
			case redisbridge.OutcomeDelivered:
				return "too late: delivered at " + cli.InstantText(c.At)
			case redisbridge.OutcomeRecorded:
			}
			return "recorded: dropped when it arrives, until " + cli.InstantText(c.Until)
		},
	}
}

// messagesText says how many messages were changed, if it is not one.
func messagesText(c redisbridge.Change) string {
	if c.Messages < 2 {
		return ""
	}
	return fmt.Sprintf(" (%d messages with this ID)", c.Messages)
}

// unchanged is what cancel and reschedule print for an ID that they cannot change.
type unchanged struct {
	ID      string `json:"id"`
	Outcome string `json:"outcome"`
	Error   string `json:"error"`
}

// word is an outcome in one or two words.
func (c changing) word(o redisbridge.Outcome) string {
	switch o {
	case redisbridge.OutcomeDone:
		return c.done
	case redisbridge.OutcomeDelivered:
		return "too late"
	default:
		return string(o)
	}
}

// tellOfGroup prints what came of the messages of a group, and adds it to the record.
func tellOfGroup(a *cli.App, format string, what changing, g redisbridge.GroupChange, err error, record *redisbridge.AuditRecord) error {
	if err != nil && len(g.Outcomes) == 0 {
		return err
	}
	messages, bad := 0, 0
	var parts []string
	for _, outcome := range []redisbridge.Outcome{redisbridge.OutcomeDone, redisbridge.OutcomeRecorded, redisbridge.OutcomeCancelledBefore, redisbridge.OutcomeDelivered} {
		n := g.Outcomes[outcome]
		if n == 0 {
			continue
		}
		messages += n
		if !what.good(outcome) {
			bad += n
		}
		audit.CountIn(record, what.word(outcome), n)
		parts = append(parts, fmt.Sprintf("%d %s", n, what.word(outcome)))
	}
	if len(parts) == 0 {
		parts = []string{"no message waits"}
	}
	out := &cli.Stream{Out: a.Out, Format: format, Header: fmt.Sprintf(changedRow, "GROUP", "OUTCOME")}
	out.Add(g, fmt.Sprintf(changedRow, printable.Text(g.Group), strings.Join(parts, ", ")))
	if err := errors.Join(out.Close(), err); err != nil {
		return err
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d messages were not %s; see above", bad, messages, what.done)
	}
	return nil
}

const changedRow = "%-24s  %s"

// changeEach changes each message, prints what came of it, and adds it to the record.
func changeEach(
	ctx context.Context, a *cli.App, format string, ids []string, what changing, record *redisbridge.AuditRecord, change func(context.Context, string) (redisbridge.Change, error),
) error {
	out := &cli.Stream{Out: a.Out, Format: format, Header: fmt.Sprintf(changedRow, "ID", "OUTCOME")}
	bad := 0
	var lost error
	eachID(ctx, a, ids, change, func(id string, c redisbridge.Change, err error) bool {
		if connect.Hopeless(err) {
			lost = err
			return false
		}
		audit.NameIn(record, id)
		m, text := any(c), what.text(c)
		if err == nil {
			audit.CountIn(record, what.word(c.Outcome), 1)
		} else {
			audit.CountIn(record, "failed", 1)
			m, text = unchanged{id, "failed", cli.OneLine(err)}, "failed: "+cli.OneLine(err)
		}
		if err != nil || !what.good(c.Outcome) {
			bad++
		}
		return out.Add(m, fmt.Sprintf(changedRow, printable.Text(id), printable.Text(text)))
	})
	err := out.Close()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case lost != nil:
		return lost
	case err != nil:
		return err
	case bad > 0:
		return fmt.Errorf("%d of %d messages were not %s, or may not have been; see above", bad, out.N, what.done)
	}
	return nil
}
