package traffic

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/connect"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/telemetry"
	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/consumer/ledger"
	"github.com/delaybridge/delaybridge/consumer/ledger/redis"
	"github.com/delaybridge/delaybridge/consumer/metrics"
	"github.com/delaybridge/delaybridge/consumer/orders"
	"github.com/delaybridge/delaybridge/consumer/orders/sqlite"
	"github.com/delaybridge/delaybridge/internal/defaults"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
)

func newConsumeCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "consume --queue QUEUE [--bind KEY]... [--exec COMMAND | --orders FILE] [--count N]",
		Short: "Print messages as they become due, run a program for each, or close orders",
		Long: `Consumes a queue and prints one line per message: ID, routing key, path,
lateness, outcome, and the beginning of the body (all of it with -o jsonl), unless a program
or the orders have that. Of each it asks Redis whether it was cancelled or rescheduled on
its way, and if so drops it; while Redis does not answer, messages stay in the queue.
With --bind it declares the queue and binds it to the
ready exchange; without, the queue must exist. With --orders it closes the order
whose ID the message bears, unless that is paid; without, it only acknowledges.

With --exec it has sh run a command for each message: the body is its standard input, and
DELAYBRIDGE_MESSAGE_ID, _ROUTING_KEY, _ENTRY, _HEADERS (JSON), _CONTENT_TYPE,
_CORRELATION_ID, _REPLY_TO, _TYPE, _APP_ID, _USER_ID, _TIMESTAMP, _PUBLISHED, _DUE, _PATH and
_ATTEMPT are in its environment. What it prints goes to standard error. Exit code 0
acknowledges the message; 75 has it tried again, however often; any other tries it again
until --max-attempts. With --once a message that comes again, and one that is published
again with the same ID, does not run the command again once that has succeeded.

A message that cannot be handled for now is tried again after a pause, which grows
from attempt to attempt, and then goes to quarantine. Meanwhile it waits in Redis, and
a bridge brings it back to this queue; without Redis this process holds it.

On SIGINT or SIGTERM it finishes the message it handles, leaves the rest in the
queue and exits with 0, or with 130 where --count was not reached.`,
		Example: `  delaybridge consume --queue closing --bind order.unpaid --orders orders.db
  delaybridge consume --queue closing --bind order.unpaid --exec ./close-order.sh --once
  delaybridge consume --queue anything --bind '#' -o jsonl --count 1 --timeout 1m`,
		Args: cli.UsageArgs(cobra.NoArgs),
	}
	var c consumer.Config
	var file string
	var count int
	var withoutRedis, once bool
	var timeout time.Duration
	var bindArguments []string
	run := &external{output: &lockedWriter{w: a.Err}}
	service := telemetry.Flags(cmd)
	service.Supervised = true
	flags := cmd.Flags()
	flags.StringVar(&c.Queue, "queue", "", "the queue to consume (required)")
	flags.StringArrayVar(&c.Bind, "bind", nil, "routing key to bind the queue by, where * is one word and # any number; may be repeated")
	flags.StringVar(&c.Entry, "entry", "", "with --bind: the entry whose messages to get, one of the setting entries (default: the default one)")
	flags.StringArrayVar(&bindArguments, "bind-argument", nil, "NAME=TEXT, for an entry whose ready exchange has the type headers: a header that messages must have, or x-match; may be repeated")
	flags.StringVar(&file, "orders", "", "close orders in this SQLite file")
	flags.StringVar(&run.command, "exec", "", "have sh run this command for each message")
	cli.DurationFlag(flags, &run.timeout, "exec-timeout", 0, "end a command that takes longer, which is then tried again (default: never)")
	flags.BoolVar(&once, "once", false, "with --exec: remember in Redis for a week which messages the command has succeeded with")
	cli.DurationFlag(flags, &timeout, "timeout", 0, "end after so long, in failure where --count was not reached (default: never)")
	flags.IntVar(&count, "count", 0, "end after this many messages, not counting those that are dropped (default: when interrupted)")
	flags.BoolVar(&withoutRedis, "without-redis", false, "take whatever comes, also what was cancelled or rescheduled on its way, and hold retries in this process")
	flags.IntVar(&c.Concurrency, "concurrency", 1, "how many messages to handle at a time; with 1 the printed order is the queue's")
	flags.IntVar(&c.Prefetch, "prefetch", 0, fmt.Sprintf("how many messages may be unacknowledged (default: %d, or twice the concurrency if that is more; with --count the concurrency)", defaults.Prefetch))
	cli.DurationFlag(flags, &c.ConsumerTimeout, "consumer-timeout", defaults.ConsumerTimeout, "the broker's consumer_timeout; what is not handled is given back before")
	flags.BoolVar(&c.WaitForTopology, "wait-for-topology", false, "wait for the topology, and for a queue that is not declared here, where otherwise a first start fails")
	orderBy := flags.String("order-by", "", "handle messages with the same id, or the same key, one at a time and in order")
	flags.BoolVar(&c.SingleActive, "single-active", false, "with --bind: have the broker give all messages to one consumer at a time")
	flags.IntVar(&c.Retry.Attempts, "max-attempts", defaults.RetryAttempts, fmt.Sprintf("how often to handle a message before it is quarantined; without Redis the default is %d", consumer.Retry{}.Held().Attempts))
	cli.DurationFlag(flags, &c.Retry.Base, "retry-base", defaults.RetryBase, "how long to wait before the second attempt")
	flags.Float64Var(&c.Retry.Factor, "retry-factor", defaults.RetryFactor, "by what the pause grows from attempt to attempt")
	cli.DurationFlag(flags, &c.Retry.Cap, "retry-cap", defaults.RetryCap, fmt.Sprintf("the longest pause; without Redis the default is %v", consumer.Retry{}.Held().Cap))
	flags.Float64Var(&c.Retry.Jitter, "retry-jitter", defaults.RetryJitter, "the share of a pause that is left to chance, up to 1")
	cli.DurationFlag(flags, &c.DrainTimeout, "drain-timeout", defaults.ConsumerDrainTimeout, "how long to finish the message that it handles when stopped")
	format := cli.OutputFlag(cmd, cli.FormatTable, cli.FormatJSONL)
	a.FromSettings(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		settings, err := a.Settings.Config()
		if err != nil {
			return err
		}
		switch {
		case c.Queue == "":
			return cli.Usage(errors.New("--queue is missing: name the queue to consume"))
		case count < 0:
			return cli.Usage(fmt.Errorf("--count %d: must not be negative", count))
		case timeout < 0 || run.timeout < 0:
			return cli.Usage(errors.New("--timeout and --exec-timeout must not be negative"))
		case run.command != "" && file != "":
			return cli.Usage(errors.New("use --exec or --orders, not both"))
		case run.command == "" && (once || run.timeout > 0):
			return cli.Usage(errors.New("--once and --exec-timeout are for --exec"))
		case once && withoutRedis:
			return cli.Usage(errors.New("--once remembers in Redis: leave --without-redis out"))
		}
		if c.BindArguments, err = parseBindArguments(bindArguments); err != nil {
			return cli.Usage(err)
		}
		ctx, stop := context.WithCancel(cmd.Context())
		defer stop()
		if timeout > 0 {
			defer time.AfterFunc(timeout, stop).Stop()
		}
		p := &consumePrinter{out: a.Out, format: *format, bodies: run.command == "" && file == "", count: count, timeout: timeout, stop: stop, closed: map[string]orders.Outcome{}}
		c.AMQPURL, c.Topology = settings.AMQPURL, settings.Topology
		c.StartWithin, c.Logger = settings.ConnectTimeout, a.Logger(settings)
		c.Observe = p.observe
		provider, flush, err := telemetry.OpenTraces(ctx, a, "consume", c.Logger)
		if err != nil {
			return err
		}
		defer flush()
		c.TracerProvider = provider
		if count > 0 && c.Prefetch == 0 {
			c.Prefetch = c.Concurrency // the messages beyond belong to others
		}
		switch {
		case c.Retry.Jitter < 0:
			return cli.Usage(fmt.Errorf("--retry-jitter %v: use 0 to 1", c.Retry.Jitter))
		case c.Retry.Jitter == 0:
			c.Retry.Jitter = -1
		}
		if c.OrderBy, err = parseOrderBy(*orderBy); err != nil {
			return cli.Usage(err)
		}
		if err := service.Listen(ctx, c.Logger); err != nil {
			return err
		}
		await := func() error { return nil }
		if !withoutRedis {
			park, closePark, err := connect.OpenPark(settings, c.Logger, connect.ParkUse{Service: service, Provider: provider, Parks: true})
			if err != nil {
				return err
			}
			defer closePark()
			c.Arrivals = park
			if t := settings.Topology; c.Queue != t.Quarantine() && c.Queue != t.Unrouted() { // which nothing is to come back to
				c.Delayer = park
			}
			await = func() error { return awaitPark(ctx, park, settings.ConnectTimeout) }
		}
		if once {
			ledger, closeLedger, err := openLedger(settings)
			if err != nil {
				return err
			}
			defer closeLedger()
			c.Ledger = ledger
		}
		if c.Delayer == nil && !flags.Changed("max-attempts") {
			c.Retry.Attempts = consumer.Retry{}.Held().Attempts
		}
		if c.Delayer == nil && !flags.Changed("retry-cap") {
			c.Retry.Cap = consumer.Retry{Base: c.Retry.Base}.Held().Cap
		}
		c.Handler = consumer.HandlerFunc(func(context.Context, message.Message) error { return nil })
		if run.command != "" {
			c.Handler = run
		}
		if file != "" {
			store, err := sqlite.Open(ctx, file)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, store.Shutdown()) }()
			c.Handler = &orders.Closer{Store: store, Closed: p.orderClosed}
		}
		instance, err := newConsumer(service, c)
		if err != nil {
			return cli.Usage(byFlags(err, consumerFields()...))
		}
		defer service.Serve(ctx, func(context.Context) error { return instance.Check() })()
		if err := await(); err != nil {
			return fmt.Errorf("%w (to take whatever comes, cancelled or not: --without-redis)", err)
		}
		p.header()
		if err := instance.Run(ctx); errors.Is(err, consumer.ErrNoQueue) || errors.Is(err, consumer.ErrQueueDiffers) {
			return fmt.Errorf("%w (--bind)", err)
		} else if err != nil {
			return err
		}
		return p.result(cmd.Context())
	}
	return cmd
}

// consumerFields are the fields of consumer.Config as its errors have them, each with its flag.
func consumerFields() []string {
	fields := []string{"consumer: Entry ", "--entry ", "consumer: ", "", "without Bind ", "without --bind ", "at least Concurrency ", "at least --concurrency ", "at least Retry.Base ", "at least --retry-base "}
	for field, flag := range map[string]string{
		"Retry.Attempts": "max-attempts", "Retry.Base": "retry-base", "Retry.Factor": "retry-factor", "Retry.Cap": "retry-cap", "Retry.Jitter": "retry-jitter",
		"Concurrency": "concurrency", "Prefetch": "prefetch", "DrainTimeout": "drain-timeout", "ConsumerTimeout": "consumer-timeout", "StartWithin": "connect-timeout",
		"SingleActive:": "single-active:", "BindArguments:": "bind-argument:",
	} {
		fields = append([]string{"consumer: " + field, "--" + flag}, fields...)
	}
	return fields
}

// openLedger returns what remembers in Redis which messages a command has succeeded with.
func openLedger(c cli.Config) (ledger.Ledger, func(), error) {
	client, err := redisbridge.NewClient(c.RedisURL)
	if err != nil {
		return nil, nil, err
	}
	kept, err := redis.New(redis.Config{Client: client, Prefix: c.Topology.Prefix() + ":ledger:"})
	return kept, func() { _ = client.Close() }, err
}

// parseBindArguments returns what --bind-argument says, or nil.
func parseBindArguments(texts []string) (map[string]any, error) {
	var arguments map[string]any
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if _, twice := arguments[name]; !ok || name == "" || twice {
			return nil, fmt.Errorf("--bind-argument %q: write NAME=TEXT, each name once", text)
		}
		if arguments == nil {
			arguments = map[string]any{}
		}
		arguments[name] = value
	}
	return arguments, nil
}

// parseOrderBy returns by what messages are kept in order: nothing, for an empty text.
func parseOrderBy(text string) (func(message.Message) string, error) {
	switch text {
	case "":
		return nil, nil
	case "id":
		return func(m message.Message) string { return m.ID }, nil
	case "key":
		return func(m message.Message) string { return m.RoutingKey }, nil
	}
	return nil, fmt.Errorf("--order-by %q: use id or key", text)
}

// newConsumer makes a consumer, which keeps metrics if they are served.
func newConsumer(s *telemetry.Service, c consumer.Config) (*consumer.Consumer, error) {
	if !s.Counts() {
		return consumer.New(c)
	}
	return metrics.NewConsumer(s.Registry, c)
}

// inFlags is an error of a library, with the names of flags for those of its fields.
type inFlags struct {
	error
	names *strings.Replacer
}

// byFlags has err name flags. Pairs are what the library says, and what to say instead.
func byFlags(err error, pairs ...string) error {
	if err == nil {
		return nil
	}
	return inFlags{err, strings.NewReplacer(pairs...)}
}

func (e inFlags) Error() string { return e.names.Replace(e.error.Error()) }

func (e inFlags) Unwrap() error { return e.error }

// retryRedis is how often a command asks for Redis that needs it to begin.
const retryRedis = 500 * time.Millisecond

// awaitPark returns once Redis answers, and an error after patience.
func awaitPark(ctx context.Context, park *redisbridge.Park, patience time.Duration) error {
	ticker := time.NewTicker(retryRedis)
	defer ticker.Stop()
	for began := time.Now(); ; {
		err := park.Check(ctx)
		if err == nil || errors.Is(err, redisbridge.ErrConfiguration) || time.Since(began) >= patience {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}
