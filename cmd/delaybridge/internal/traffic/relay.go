package traffic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	_ "modernc.org/sqlite"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/connect"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/telemetry"
	"github.com/delaybridge/delaybridge/internal/settings"
	"github.com/delaybridge/delaybridge/producer"
	"github.com/delaybridge/delaybridge/producer/outbox"
	"github.com/delaybridge/delaybridge/producer/outbox/metrics"
)

// the database/sql driver

// failedMost bounds --list-failed where no --limit is given.
const failedMost = 1000

func newRelayCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "relay --database-url URL [--list-failed | --retry-failed [SEQ]...]",
		Short: "Send what services put into their database's outbox, until interrupted",
		Long: `Sends the rows of the table delaybridge_outbox, which it makes where there is none:
a service in any language inserts them in its own transaction, and what they ask for
happens if that transaction commits. Any number of relays may run side by side.
docs/outbox.md describes the columns.

A row goes once RabbitMQ or Redis has what it asks for. One that can never be sent is set
aside with the reason: --list-failed shows those, and --retry-failed has them sent again,
all of them or those with these numbers.

On SIGINT or SIGTERM the relay finishes what it is sending, and exits with 0.`,
		Example: `  DELAYBRIDGE_DATABASE_URL=postgres://shop@localhost/shop delaybridge relay
  delaybridge relay --database-url sqlite:///var/lib/shop/shop.db --list-failed`,
	}
	var r relayJob
	d := outbox.Defaults()
	service := telemetry.Flags(cmd)
	service.Supervised = true
	flags := cmd.Flags()
	database := settings.Setting{Key: "database-url", Usage: "the database: postgres:// or mysql://user:password@host:port/database, or sqlite:///path"}
	cli.AddSetting(flags, database)
	cli.DurationFlag(flags, &r.config.Poll, "poll", d.Poll, "how often to ask a database for rows that cannot tell of them, all but PostgreSQL")
	flags.IntVar(&r.config.Batch, "batch", d.Batch, "how many rows to send at a time, 1 to 1000")
	flags.IntVar(&r.config.Workers, "workers", d.Workers, "how many batches to send at a time; each takes a connection to the database")
	listFailed := flags.Bool("list-failed", false, "print the rows that were set aside, and exit")
	retryFailed := flags.Bool("retry-failed", false, "have rows sent again that were set aside, and exit")
	limit := flags.Int("limit", failedMost, "with --list-failed: at most this many rows")
	format := cli.OutputFlag(cmd, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		settings, err := a.Settings.Config()
		if err != nil {
			return err
		}
		switch {
		case *listFailed && *retryFailed:
			return cli.Usage(errors.New("--list-failed and --retry-failed exclude each other"))
		case len(args) > 0 && !*retryFailed:
			return cli.Usage(fmt.Errorf("unexpected argument %q: only --retry-failed takes numbers of rows", args[0]))
		case *limit < 1:
			return cli.Usage(fmt.Errorf("--limit %d: must be at least 1", *limit))
		case r.config.Poll <= 0:
			return cli.Usage(fmt.Errorf("--poll %v: must be longer than 0", r.config.Poll))
		}
		seqs := make([]int64, len(args))
		for i, arg := range args {
			if seqs[i], err = strconv.ParseInt(arg, 10, 64); err != nil {
				return cli.Usage(fmt.Errorf("%q is no number of a row: --list-failed shows them", arg))
			}
		}
		from, err := a.Settings.Own(settings, flags, database)
		if err != nil {
			return err
		}
		r.App, r.settings, r.service = a, settings, service
		store, closeStore, err := openOutbox(cmd.Context(), from, r.config.Workers)
		if err != nil {
			return err
		}
		defer closeStore()
		ctx, cancel := context.WithTimeout(cmd.Context(), settings.ConnectTimeout)
		defer cancel()
		if err := awaitOutbox(ctx, store); err != nil {
			return err
		}
		switch {
		case *listFailed:
			return listFailedRows(cmd.Context(), a, store, *limit, *format)
		case *retryFailed:
			n, err := store.Retry(cmd.Context(), seqs...)
			if err == nil {
				fmt.Fprintf(a.Err, "rows that are sent again: %d\n", n)
			}
			return err
		}
		return r.run(cmd.Context(), store)
	}
	return cmd
}

// relayJob is one run of the command.
type relayJob struct {
	*cli.App
	config   outbox.RelayConfig
	settings cli.Config
	service  *telemetry.Service
}

func (r *relayJob) run(ctx context.Context, store outbox.Store) error {
	log := r.Logger(r.settings)
	if err := r.service.Listen(ctx, log); err != nil {
		return err
	}
	provider, flush, err := telemetry.OpenTraces(ctx, r.App, "relay", log)
	if err != nil {
		return err
	}
	defer flush()
	park, closePark, err := connect.OpenPark(r.settings, log, connect.ParkUse{Service: r.service, Provider: provider, Parks: true})
	if err != nil {
		return err
	}
	defer closePark()
	p, err := newProducer(r.service, producer.Config{
		AMQPURL: r.settings.AMQPURL, Topology: r.settings.Topology, Parker: park,
		ConnectionName: "delaybridge relay", Logger: log, TracerProvider: provider,
	})
	if err != nil {
		return cli.Usage(err)
	}
	r.config.Store, r.config.Publisher, r.config.Park, r.config.Logger = store, p, park, log
	relay, err := r.newRelay()
	if err != nil {
		return cli.Usage(err)
	}
	defer r.service.Serve(ctx, func(ctx context.Context) error { return errors.Join(relay.Check(), p.Check(), park.Check(ctx)) })()
	return runRelay(ctx, log, relay, p)
}

// newRelay makes a relay, which keeps metrics if they are served.
func (r *relayJob) newRelay() (*outbox.Relay, error) {
	if !r.service.Counts() {
		return outbox.NewRelay(r.config)
	}
	return metrics.NewRelay(r.service.Registry, r.settings.Topology.Prefix(), r.config)
}

// runRelay runs a relay until ctx ends, and its producer until the relay has ended.
func runRelay(ctx context.Context, log *slog.Logger, relay *outbox.Relay, p *producer.Producer) error {
	log.Info("relay starts")
	publishing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	relaying, cancel := context.WithCancel(ctx)
	defer cancel()
	var both errgroup.Group
	both.Go(func() error {
		defer cancel() // without a connection there is nothing to be done
		return p.Run(publishing)
	})
	both.Go(func() error {
		defer stop()
		return relay.Run(relaying)
	})
	if err := both.Wait(); err != nil {
		return err
	}
	log.Info("relay stopped")
	return nil
}

// failedRow is a row that was set aside, as it is printed.
type failedRow struct {
	Seq       int64     `json:"seq"`
	Action    string    `json:"action"`
	ID        string    `json:"id"`
	Entry     string    `json:"entry,omitempty"`
	Key       string    `json:"key,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	FailedAt  time.Time `json:"failed_at"`
	Reason    string    `json:"reason"`
}

func listFailedRows(ctx context.Context, a *cli.App, store outbox.Store, limit int, format string) error {
	failed, err := store.Failed(ctx, limit)
	if err != nil {
		return err
	}
	rows := make([]failedRow, len(failed))
	for i, f := range failed {
		rows[i] = failedRow{
			Seq: f.Seq, Action: string(f.Action), ID: f.MessageID, Entry: f.Entry, Key: f.RoutingKey,
			CreatedAt: time.UnixMilli(f.CreatedMS).UTC(), FailedAt: f.At.UTC(), Reason: f.Reason,
		}
	}
	return printFailedRows(a.Out, format, rows)
}

func printFailedRows(out io.Writer, format string, rows []failedRow) error {
	return cli.Emit(out, format, rows, []string{"SEQ", "ACTION", "ID", "FAILED", "REASON"}, func(r failedRow) []string {
		return []string{strconv.FormatInt(r.Seq, 10), r.Action, r.ID, r.FailedAt.Format(time.RFC3339), r.Reason}
	})
}
