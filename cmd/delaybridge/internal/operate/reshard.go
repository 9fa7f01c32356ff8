package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/audit"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/connect"
	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// reshardLook is how often it is looked how far the change is.
const reshardLook = 500 * time.Millisecond

func newReshardCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reshard N",
		Short: "Change the number of shards while traffic goes on; without --yes it says what would happen, and exits with 3",
		Long: `Has the bridges move all messages in Redis to N shards, while publishers, consumers and
bridges go on. First it creates the lanes of the new shards on RabbitMQ. It shows how far the
bridges are, and ends when they are done. When it is interrupted the bridges go on: run it
again with the same N to see how far they are.

Without --yes it changes nothing, says what would happen, and exits with 3. Where there are N
shards already it exits with 0. While the number changes to another one it refuses.

All bridges, publishers and consumers have to be of a release that knows how to do it: what is
alive among bridges is checked. A consumer in another language that asks Redis by a script needs
the script of this release. Meanwhile export, import and topology prune are refused, and list may
miss a message that moves just then. Afterwards set shards to N, so that commands that do not ask
Redis go by it, and remove lanes that are not needed with topology prune.

It needs the permissions of a bridge.`,
		Example: "  delaybridge reshard 8\n  delaybridge reshard 8 --yes --reason 'more bridges'",
		Args:    cli.UsageArgs(cobra.ExactArgs(1)),
	}
	yes := cmd.Flags().Bool("yes", false, "yes, change it")
	format := cli.OutputFlag(cmd, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL)
	reason := audit.ReasonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		settings, err := a.Settings.Config()
		if err != nil {
			return err
		}
		shards, err := strconv.Atoi(args[0])
		if err == nil {
			_, err = settings.Topology.WithShards(shards)
		}
		if err != nil {
			return cli.Usage(fmt.Errorf("%q is no number of shards: use 1 to 64", args[0]))
		}
		if settings.LogLevel == slog.LevelInfo {
			settings.LogLevel = slog.LevelWarn // that a short command has connected goes without saying
		}
		a.SayTarget(settings)
		return connect.UsePark(a, settings, connect.ParkUse{}, func(park *redisbridge.Park, _ cli.Config) error {
			r := reshard{App: a, park: park, settings: settings, shards: shards, format: *format, reason: *reason}
			return r.run(cmd.Context(), *yes)
		})
	}
	return cmd
}

// reshard is one call of the command.
type reshard struct {
	*cli.App
	park     *redisbridge.Park
	settings cli.Config
	shards   int
	format   string
	reason   string
}

func (r *reshard) run(ctx context.Context, yes bool) error {
	if err := r.park.Check(ctx); err != nil {
		return err
	}
	is, err := r.park.Resharding(ctx)
	switch {
	case err != nil:
		return err
	case is.Next == 0 && is.Shards == r.shards:
		return r.print(is)
	case is.Next != 0 && is.Next != r.shards:
		return fmt.Errorf("%w: the bridges are changing the number of shards to %d: 'delaybridge reshard %d' shows how far they are", redisbridge.ErrResharding, is.Next, is.Next)
	case is.Next == 0 && !yes:
		if err := r.park.CheckReshard(ctx, r.shards); err != nil {
			return err
		}
		fmt.Fprintf(r.Out, "Bridges would move all messages under prefix %s from %d to %d shards, while traffic goes on.\n",
			r.settings.Topology.Prefix(), is.Shards, r.shards)
		return cli.WithCode(cli.ExitDrift, errors.New("nothing was changed: to change it say --yes"))
	case is.Next == 0:
		if err := r.begin(ctx, is); err != nil {
			return err
		}
	}
	return r.follow(ctx)
}

// begin puts the lanes of the new shards in place, and has the bridges begin.
func (r *reshard) begin(ctx context.Context, is redisbridge.Resharding) error {
	wanted, err := r.settings.Topology.WithShards(max(is.Shards, r.shards))
	if err != nil {
		return err
	}
	if err := r.park.CheckReshard(ctx, r.shards); err != nil {
		return err
	}
	err = connect.WithBroker(ctx, r.App, r.settings, func(ctx context.Context, channels topology.Channels) error {
		_, err := wanted.Apply(ctx, channels)
		return err
	})
	if err == nil {
		err = r.park.BeginReshard(ctx, r.shards)
	}
	record := redisbridge.AuditRecord{Action: audit.Reshard, Details: fmt.Sprintf("from %d to %d shards", is.Shards, r.shards), Reason: r.reason}
	audit.Record(ctx, r.App, r.park, record, err)
	return err
}

// follow shows how far the bridges are until they are done.
func (r *reshard) follow(ctx context.Context) error {
	bar := r.NewWorking("moving messages")
	defer bar.Clear()
	ticker := time.NewTicker(reshardLook)
	defer ticker.Stop()
	began, first := time.Now(), -1.0
	for {
		is, err := r.park.Resharding(ctx)
		switch {
		case err == nil && is.Next != r.shards && is.Shards == r.shards:
			bar.Clear()
			return r.print(is)
		case err == nil && is.Next != r.shards:
			return fmt.Errorf("another change of the number of shards has followed: there are %d", is.Shards)
		case err == nil:
			if first < 0 {
				first = is.Done
			}
			bar.Describe(progressText(is.Done, is.Done-first, time.Since(began)))
			if r.format == cli.FormatJSONL {
				if err := json.NewEncoder(r.Out).Encode(is); err != nil {
					return err
				}
			}
		case ctx.Err() == nil && !errors.Is(err, redisbridge.ErrUnreachable):
			return err
		default:
			bar.Describe(printable.Error(err)) // the bridges wait for Redis, too
		}
		select {
		case <-ctx.Done():
			bar.Clear()
			fmt.Fprintf(r.Err, "interrupted: the bridges go on; 'delaybridge reshard %d' shows how far they are\n", r.shards)
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// progressText says how much is done, and how long the rest takes at the rate of the time that has passed.
func progressText(done, since float64, passed time.Duration) string {
	text := fmt.Sprintf("moving messages: %.0f %%", 100*done)
	if since > 0 {
		rate := since / passed.Seconds()
		text += fmt.Sprintf(", %.1f %% a second, %v left", 100*rate, time.Duration((1-done)/rate*float64(time.Second)).Round(time.Second))
	}
	return text
}

func (r *reshard) print(is redisbridge.Resharding) error {
	switch r.format {
	case cli.FormatJSON:
		return cli.PrintJSON(r.Out, is)
	case cli.FormatJSONL:
		return json.NewEncoder(r.Out).Encode(is)
	}
	_, err := fmt.Fprintf(r.Out, "prefix %s has %d shards\n", r.settings.Topology.Prefix(), is.Shards)
	return err
}
