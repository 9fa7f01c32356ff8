package setup

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/capacity"
	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/internal/settings"
	"github.com/delaybridge/delaybridge/internal/wire"
)

func newSizeCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "size --pending MESSAGES --body BYTES --rate MESSAGES",
		Short: "Print what to order for a load: memory, disk and processors",
		Long: `Prints what Redis, bridges and RabbitMQ take for a load, by what a message has cost where
that was measured. Of each figure it prints the nearest measurement, and warns where the load
is far from that. No server is asked. docs/capacity.md has the model, and how wrong it is.

All messages are taken to go through Redis. Processors, memory of a node and disk of a node are
with room to spare. Of the settings, lead, tiers, shards, remember and dedupe-window count.`,
		Example: `  delaybridge size --pending 50M --body 400 --rate 2000
  delaybridge size --pending 1.5M --body 4KiB --rate 1k --within 7d -o json`,
		Args: cli.UsageArgs(cobra.NoArgs),
	}
	var pending, rate, body, id, memory, within string
	flags := cmd.Flags()
	flags.StringVar(&pending, "pending", "", "most messages that wait at once, such as 50M (required)")
	flags.StringVar(&rate, "rate", "", "most messages due in a second, such as 1.5k (required)")
	flags.StringVar(&body, "body", "", "bytes of a body on average, such as 400 or 4KiB (required)")
	flags.StringVar(&id, "id", "26", "bytes of an ID on average")
	flags.StringVar(&within, "within", "30d", "how long it takes until all that wait are due")
	flags.StringVar(&memory, "redis-memory", "32GB", "memory of one Redis server")
	format := cli.OutputFlag(cmd, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL)
	cmd.RunE = func(*cobra.Command, []string) error {
		c, err := a.Settings.Config()
		if err != nil {
			return err
		}
		leads := c.Topology.Leads()
		d := capacity.Demand{Shards: c.Topology.Shards(), Lead: leads[len(leads)-1], Remember: max(c.Remember, c.DedupeWindow)}
		for _, q := range []struct {
			flag, text, example string
			most                float64
			read                func(string) (float64, error)
			into                *float64
		}{
			{"pending", pending, "50M", 1e12, number, &d.Pending},
			{"rate", rate, "2000", 1e9, number, &d.Rate},
			{"body", body, "400 or 4KiB", 512e6, size, &d.Body},
			{"id", id, "26", 255, size, &d.ID},
			{"redis-memory", memory, "32GB", 1e15, size, &d.RedisMemory},
		} {
			n, wrong := q.read(q.text)
			switch {
			case q.text == "":
				wrong = fmt.Errorf("--%s is missing: write it as %s", q.flag, q.example)
			case wrong != nil || !(n > 0): // it may be no number
				wrong = fmt.Errorf("--%s %q: use a number above 0, such as %s", q.flag, q.text, q.example)
			case n > q.most:
				wrong = fmt.Errorf("--%s %q: use %.0f at most", q.flag, q.text, q.most)
			}
			*q.into, err = n, errors.Join(err, wrong)
		}
		var wrong error
		if d.Within, wrong = wire.ParseDuration(within); wrong != nil || d.Within < time.Second {
			err = errors.Join(err, fmt.Errorf("--within %q: use a duration of 1s at least, such as 30d", within))
		}
		if err != nil {
			return cli.Usage(err)
		}
		if mean := d.Pending / d.Within.Seconds(); mean > d.Rate {
			return cli.Usage(fmt.Errorf("--rate %s: with --pending %s, within %s, %.4g messages are due in a second on average: raise --rate or --within", rate, pending, within, mean))
		}
		return printFigures(a, *format, capacity.Measured().Figures(d))
	}
	return cmd
}

// number reads 1500, 1.5k, 50M or 2G.
func number(text string) (float64, error) {
	digits := strings.TrimRight(text, "kMG")
	factor, ok := map[string]float64{"": 1, "k": 1e3, "M": 1e6, "G": 1e9}[text[len(digits):]]
	if !ok {
		return 0, strconv.ErrSyntax
	}
	n, err := strconv.ParseFloat(digits, 64)
	return n * factor, err
}

func size(text string) (float64, error) {
	n, err := settings.ParseSize(text)
	return float64(n), err
}

func printFigures(a *cli.App, format string, figures []capacity.Figure) error {
	err := cli.Emit(a.Out, format, figures, []string{"WHAT", "NEEDED", "RESTS ON"}, func(f capacity.Figure) []string {
		return []string{f.What, f.Text, f.RestsOn}
	})
	if err != nil || format != cli.FormatTable {
		return err
	}
	for _, f := range figures {
		if f.Warning != "" {
			fmt.Fprintf(a.Out, "!! %s: %s\n", printable.Text(f.What), printable.Text(f.Warning))
		}
	}
	return nil
}
