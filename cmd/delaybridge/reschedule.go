package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

func newRescheduleCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reschedule (--in 10m | --at INSTANT) ID... | reschedule ... -",
		Short: "Give messages another due time, and say of each whether that came in time",
		Long: `Gives messages that are not delivered yet another due time, earlier or later. One
that the broker has already is parked again, and the copy with the old time is dropped
when it comes out, by a consumer that asks Redis, as 'delaybridge consume' does.

Redis does not know a message that went straight into a tier. If its new time is
later, its consumer parks it again when it comes. To bring it forward, this searches
the tiers whose TTL is longer than the new delay, once for all IDs, and parks what it
finds. What is due in a tier while that is searched is late by the search: so there
are bounds to how much it holds, and how long. Where an earlier search has held more of
a tier, within its TTL, this does, too, to give all of it back in order.

IDs are arguments or lines of standard input. The answers come in their order, those
after an unknown message when standard input has ended, or after 10,000. With --in
the delay runs from when each ID is read.

The exit code is 0 if every message was rescheduled, 1 if one was cancelled, too late
or unknown, and 4 if a server is unreachable. Without RabbitMQ nothing is searched;
what Redis knows is rescheduled nevertheless, and what it does not know if the new
time is later.`,
		Example: `  delaybridge reschedule o-1 --in 10m
  delaybridge reschedule --at 2030-01-01T08:00:00Z - < ids.txt`,
		Args: idsArgs(a),
	}
	in := cmd.Flags().String("in", "", "delay from now, such as 1500ms, 30m, 1h30m or 7d")
	at := cmd.Flags().String("at", "", "instant to deliver at, such as 2030-01-01T08:00:00Z")
	messages := cmd.Flags().Int("search-tiers", redisbridge.DefaultSearchMessages,
		fmt.Sprintf("how many messages of each tier to look through for one that Redis does not know, those that are due next first; at most %d; 0: do not search", redisbridge.MaxSearchMessages))
	held := cmd.Flags().String("search-time", durationText(redisbridge.DefaultSearchTime), "for how long a search may hold the messages of a tier, which are late by that if they are due meanwhile")
	format := outputFlag(cmd, formatTable, formatJSON, formatJSONL)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		when, err := parseWhen(*in, *at, "--in", "--at")
		switch {
		case err != nil:
			return usage(err)
		case *in == "" && *at == "":
			return usage(errors.New("--in or --at is missing: give the new delay or instant"))
		}
		bounds := redisbridge.SearchBounds{Messages: *messages}
		if bounds.Time, err = parseDuration(*held); err != nil {
			return usage(fmt.Errorf("--search-time: %w", err))
		}
		if err := errors.Join(when.Validate(time.Now()), checkSearch(bounds)); err != nil {
			return usage(err)
		}
		return a.withTracedPark(cmd.Context(), "reschedule", func(park *redisbridge.Park, c config) error {
			what := rescheduling()
			if *messages > 0 {
				tiers := c.topology.Tiers()
				what.search, what.reach = a.searching(park, c, bounds), tiers[len(tiers)-1].TTL
			}
			return a.changeEach(cmd.Context(), *format, args, what, func(ctx context.Context, id string) (redisbridge.Change, error) {
				return park.Reschedule(ctx, id, when)
			})
		})
	}
	return cmd
}

func checkSearch(b redisbridge.SearchBounds) error {
	var faults []error
	if b.Messages < 0 || b.Messages > redisbridge.MaxSearchMessages {
		faults = append(faults, fmt.Errorf("--search-tiers %d: use 0 to %d", b.Messages, redisbridge.MaxSearchMessages))
	}
	if b.Time <= 0 {
		faults = append(faults, fmt.Errorf("--search-time %v: must be longer than 0; to search no tier, use --search-tiers 0", b.Time))
	}
	return errors.Join(faults...)
}

// searching returns what searches the tiers, over a connection that it makes when it is
// called.
func (a *app) searching(park *redisbridge.Park, c config, bounds redisbridge.SearchBounds) func(context.Context, []string) (redisbridge.Search, error) {
	return func(ctx context.Context, ids []string) (redisbridge.Search, error) {
		var s redisbridge.Search
		err := withBrokerAs(ctx, a, c, "reschedule", "a command looks for messages in the tiers, and holds meanwhile what it has looked at",
			func(ctx context.Context, channels topology.Channels) (err error) {
				s, err = park.SearchTiers(ctx, channels, ids, bounds)
				return err
			})
		if err != nil {
			err = fmt.Errorf("what is unknown was not searched for in every tier, and comes at its old time if the new one is earlier: %w", err)
		}
		return s, err
	}
}

func rescheduling() changing {
	return changing{
		done: "rescheduled",
		good: func(o redisbridge.Outcome) bool { return o == redisbridge.Done },
		text: func(c redisbridge.Change) string {
			switch c.Outcome {
			case redisbridge.Done:
				return "rescheduled, due " + instantText(c.Due)
			case redisbridge.WasCancelled:
				return "cancelled before, at " + instantText(c.At)
			case redisbridge.WasDelivered:
				return "too late: delivered at " + instantText(c.At)
			case redisbridge.Unknown:
			}
			return "unknown: nothing in Redis bears this ID, or no more than that it was due; if a message with it comes before " +
				instantText(c.Due) + ", its consumer parks it again until then"
		},
	}
}
