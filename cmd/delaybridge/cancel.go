package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/redisbridge"
)

func newCancelCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel ID... | cancel -",
		Short: "Cancel messages, and say of each whether that came in time",
		Long: `Cancels messages that are not delivered yet, wherever they are. One that is parked
leaves Redis. One that the broker has is dropped when it comes out, by a consumer that
asks Redis, as 'delaybridge consume' does. Cancelling again is harmless.

IDs are arguments or lines of standard input. The answers come in their order.

The exit code is 0 if every message was cancelled, by now or before, and 1 if one was
too late or unknown. A message that went straight into a tier is unknown to Redis:
that it will be dropped cannot be promised to a consumer that does not ask.`,
		Example: `  delaybridge cancel o-1 o-2
  delaybridge list --key order.unpaid -o jsonl | jq -r .id | delaybridge cancel - -o jsonl`,
		Args: idsArgs(a),
	}
	format := outputFlag(cmd, formatTable, formatJSON, formatJSONL)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.withTracedPark(cmd.Context(), "cancel", func(park *redisbridge.Park, _ config) error {
			return a.changeEach(cmd.Context(), *format, args, cancelling(), park.Cancel)
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
		good: func(o redisbridge.Outcome) bool { return o == redisbridge.Done || o == redisbridge.WasCancelled },
		text: func(c redisbridge.Change) string {
			switch {
			case c.Outcome == redisbridge.Done:
				return "cancelled"
			case c.Outcome == redisbridge.WasCancelled:
				return "cancelled before, at " + instantText(c.At)
			case c.Outcome == redisbridge.WasDelivered:
				return "too late: delivered at " + instantText(c.At)
			case c.Due.IsZero():
				return "unknown: nothing in Redis bears this ID; a message with it that is in a tier is dropped by its consumer"
			case c.Due.After(c.At):
				return "unknown: it was rescheduled where Redis did not have it; when it comes, its consumer drops it"
			}
			return "unknown: it was due at " + instantText(c.Due) + ", and no consumer has said that it came; if it comes, its consumer drops it"
		},
	}
}

// changedMessage is what cancel and reschedule print for each ID.
type changedMessage struct {
	ID      string    `json:"id"`
	Outcome string    `json:"outcome"`
	At      time.Time `json:"at,omitzero"`
	Due     time.Time `json:"due,omitzero"`
	Error   string    `json:"error,omitempty"`
}

const changedRow = "%-24s  %s"

// changeEach changes each message, and prints what came of it.
func (a *app) changeEach(
	ctx context.Context, format string, ids []string, what changing, change func(context.Context, string) (redisbridge.Change, error),
) error {
	out := &stream{out: a.out, format: format, header: fmt.Sprintf(changedRow, "ID", "OUTCOME")}
	bad := 0
	var lost error
	eachID(ctx, a, ids, change, func(id string, c redisbridge.Change, err error) bool {
		if hopeless(err) {
			lost = err
			return false
		}
		m, text := changedMessage{ID: id, Outcome: what.outcome(c), At: c.At.UTC(), Due: c.Due.UTC()}, what.text(c)
		if err != nil {
			m = changedMessage{ID: id, Outcome: "failed", Error: oneLine(err)}
			text = "failed: " + m.Error
		}
		if err != nil || !what.good(c.Outcome) {
			bad++
		}
		return out.add(m, fmt.Sprintf(changedRow, printable(id), printable(text)))
	})
	err := out.close()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case lost != nil:
		return lost
	case err != nil:
		return err
	case bad > 0:
		return fmt.Errorf("%d of %d messages were not %s, or may not have been; see above", bad, out.n, what.done)
	}
	return nil
}

// outcome is the word for an outcome in JSON.
func (w changing) outcome(c redisbridge.Change) string {
	switch c.Outcome {
	case redisbridge.Done:
		return w.done
	case redisbridge.WasDelivered:
		return "too late"
	default:
		return string(c.Outcome)
	}
}
