package waiting

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/audit"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/connect"
	"github.com/delaybridge/delaybridge/redisbridge"
)

func newRescheduleCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reschedule (--in 10m | --at INSTANT) ID... | reschedule ... - | reschedule ... --group GROUP",
		Short: "Give messages another due time, and say of each whether that came in time",
		Long: `Gives messages that are not delivered yet another due time, earlier or later. One
that the broker has already is parked again, and the copy with the old time is dropped
when it comes out, by a consumer that asks Redis, as 'delaybridge consume' does.

Where several messages have the same ID, all are rescheduled. Redis does not know a
message that was published untracked and went straight into a tier. The answer is
"recorded": if its new time is later, its consumer parks it again when it comes. It
cannot be brought forward.

IDs are arguments or lines of standard input. The answers come in their order. With --in
the delay runs from when each ID is read. --group is as for 'delaybridge cancel'.

The exit code is 0 if every message was rescheduled, 1 if one was cancelled, too late
or recorded, and 4 if Redis is unreachable.`,
		Example: `  delaybridge reschedule o-1 --in 10m
  delaybridge reschedule --at 2030-01-01T08:00:00Z - < ids.txt`,
		Args: idsArgs(a),
	}
	in := cmd.Flags().String("in", "", "delay from now, such as 1500ms, 30m, 1h30m, 7d or 1y")
	at := cmd.Flags().String("at", "", "instant to deliver at, such as 2030-01-01T08:00:00Z")
	entry, group := entryFlag(cmd), groupFlag(cmd)
	format := cli.OutputFlag(cmd, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL)
	reason := audit.ReasonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		when, err := cli.ParseWhen(*in, *at, "--in", "--at")
		switch {
		case err != nil:
			return cli.Usage(err)
		case *in == "" && *at == "":
			return cli.Usage(errors.New("--in or --at is missing: give the new delay or instant"))
		}
		if err := when.Validate(time.Now()); err != nil {
			return cli.Usage(err)
		}
		return connect.WithTracedPark(cmd.Context(), a, "reschedule", func(park *redisbridge.Park, c cli.Config) error {
			park, err := parkOf(park, c, *entry)
			if err != nil {
				return err
			}
			record := redisbridge.AuditRecord{Action: audit.Reschedule, Entry: *entry, Group: *group, Details: "in " + *in, Reason: *reason}
			if *at != "" {
				record.Details = "at " + *at
			}
			if *group != "" {
				change, failed := park.RescheduleGroup(cmd.Context(), *group, when)
				err = tellOfGroup(a, *format, rescheduling(), change, failed, &record)
			} else {
				err = changeEach(cmd.Context(), a, *format, args, rescheduling(), &record, func(ctx context.Context, id string) (redisbridge.Change, error) {
					return park.Reschedule(ctx, id, when)
				})
			}
			audit.Record(cmd.Context(), a, park, record, err)
			return err
		})
	}
	return cmd
}

func rescheduling() changing {
	return changing{
		done: "rescheduled",
		good: func(o redisbridge.Outcome) bool { return o == redisbridge.OutcomeDone },
		text: func(c redisbridge.Change) string {
			switch c.Outcome {
			case redisbridge.OutcomeDone:
				return "rescheduled, due " + cli.InstantText(c.Due) + messagesText(c)
			case redisbridge.OutcomeCancelledBefore:
				return "cancelled before, at " + cli.InstantText(c.At)
			case redisbridge.OutcomeDelivered:
				return "too late: delivered at " + cli.InstantText(c.At)
			case redisbridge.OutcomeRecorded:
			}
			return "recorded: if it arrives before " + cli.InstantText(c.Due) + ", its consumer parks it again until then"
		},
	}
}
