package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/audit"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/connect"
	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/redisbridge"
)

func newAdoptCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "adopt",
		Short: "Go on with what Redis has, where bridges refuse that: it was emptied, is an older copy, or another installation's",
		Long: `Bridges note down in Redis and on RabbitMQ which installation both belong to, and how far
they are. Where Redis was emptied, was restored from an older backup, or is another
installation's, bridges refuse it, and messages stay in the inbox. If there is a better
copy of Redis' data, restore that first. Otherwise this command has the installation go on
with what is there: a new epoch begins, and bridges go on within seconds.

Without --yes it changes nothing, prints why Redis is refused and what adopting it loses
or repeats, and exits with 3. Where nothing is refused it exits with 0.

It needs the permissions of a bridge.`,
		Args: cli.UsageArgs(cobra.NoArgs),
	}
	yes := cmd.Flags().Bool("yes", false, "yes, adopt it")
	format := cli.OutputFlag(cmd, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL)
	reason := audit.ReasonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		settings, err := a.Settings.Config()
		if err != nil {
			return err
		}
		if settings.LogLevel == slog.LevelInfo {
			settings.LogLevel = slog.LevelWarn // that a short command has connected goes without saying
		}
		a.SayTarget(settings)
		client, err := redisbridge.NewClient(settings.RedisURL)
		if err != nil {
			return err
		}
		defer func() { _ = client.Close() }()
		c := redisbridge.Config{
			Client: client, AMQPURL: settings.AMQPURL, Topology: settings.Topology, StartWithin: settings.ConnectTimeout, Logger: a.Logger(settings),
		}
		adoption, err := redisbridge.Adopt(cmd.Context(), c, func(redisbridge.Adoption) bool { return *yes })
		if adoption.Adopted || err != nil && adoption.Refused != "" {
			err = recordAdoption(cmd.Context(), a, settings, adoption, *reason, err)
		}
		if err != nil {
			return err
		}
		switch *format {
		case cli.FormatJSON:
			err = cli.PrintJSON(a.Out, adoption)
		case cli.FormatJSONL:
			err = json.NewEncoder(a.Out).Encode(adoption)
		default:
			_, err = fmt.Fprint(a.Out, adoptionText(adoption))
		}
		if err == nil && adoption.Refused != "" && !adoption.Adopted {
			err = cli.WithCode(cli.ExitDrift, errors.New("nothing was changed: to adopt it say --yes"))
		}
		return err
	}
	return cmd
}

func recordAdoption(ctx context.Context, a *cli.App, settings cli.Config, adoption redisbridge.Adoption, reason string, err error) error {
	return errors.Join(err, connect.UsePark(a, settings, connect.ParkUse{}, func(park *redisbridge.Park, _ cli.Config) error {
		r := redisbridge.AuditRecord{Action: audit.Adopt, Details: adoption.Refused, Reason: reason}
		if adoption.Adopted {
			r.Outcome = map[string]int{"adopted": 1}
		}
		audit.Record(ctx, a, park, r, err)
		return nil
	}))
}

func adoptionText(a redisbridge.Adoption) string {
	if a.Refused == "" {
		return "nothing to adopt: bridges do not refuse what Redis has\n"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s.\n%s\n", printable.Text(a.Refused), printable.Text(a.Consequences))
	if a.Adopted {
		fmt.Fprintf(&text, "Adopted: epoch %d of installation %s begins.\n", a.Epoch, a.Installation)
	}
	return text.String()
}
