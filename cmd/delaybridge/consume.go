package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/consumer/orders"
	"github.com/delaybridge/delaybridge/consumer/orders/sqlite"
	"github.com/delaybridge/delaybridge/message"
)

func newConsumeCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "consume --queue QUEUE [--bind KEY]... [--orders FILE] [--count N]",
		Short: "Print messages as they become due, and close the orders they are about",
		Long: `Consumes a queue and prints one line per message: ID, routing key, path,
lateness and outcome. With --bind it declares the queue and binds it to the
ready exchange; without, the queue must exist. With --orders it closes the order
whose ID the message bears, unless that is paid; without, it only acknowledges.

On SIGINT or SIGTERM it finishes the message in hand, leaves the rest in the
queue and exits with 0, or with 130 where --count was not reached.`,
		Example: `  delaybridge consume --queue closing --bind order.unpaid --orders orders.db
  delaybridge consume --queue anything --bind '#' -o jsonl --count 1`,
		Args: usageArgs(cobra.NoArgs),
	}
	var c consumer.Config
	var file string
	var count int
	flags := cmd.Flags()
	flags.StringVar(&c.Queue, "queue", "", "the queue to consume (required)")
	flags.StringArrayVar(&c.Bind, "bind", nil, "routing key to bind the queue by, where * is one word and # any number; may be repeated")
	flags.StringVar(&file, "orders", "", "close orders in this SQLite file")
	flags.IntVar(&count, "count", 0, "end after so many messages (default: when interrupted)")
	flags.IntVar(&c.MaxAttempts, "max-attempts", consumer.DefaultMaxAttempts, "how often to handle a message before it is quarantined")
	flags.DurationVar(&c.DrainTimeout, "drain-timeout", consumer.DefaultDrainTimeout, "how long to finish the message in hand when stopped")
	format := outputFlag(cmd, formatTable, formatJSONL)
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		settings, err := a.settings.config()
		if err != nil {
			return err
		}
		if count < 0 {
			return usage(fmt.Errorf("--count %d: must not be negative", count))
		}
		ctx, stop := context.WithCancel(cmd.Context())
		defer stop()
		p := &consumePrinter{out: a.out, format: *format, count: count, stop: stop, closed: map[string]orders.Outcome{}}
		c.URL, c.Topology = settings.amqpURL, settings.topology
		c.GiveUpAfter, c.Logger = settings.connectTimeout, a.logger(settings)
		c.Observe = p.observe
		c.Concurrency = 1 // the printed order is the queue's
		if count > 0 {
			c.Prefetch = 1 // the messages beyond belong to others
		}
		c.Handler = consumer.HandlerFunc(func(context.Context, message.Message) error { return nil })
		if file != "" {
			store, err := sqlite.Open(ctx, file)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, store.Shutdown()) }()
			c.Handler = &orders.Closer{Store: store, Closed: p.orderClosed}
		}
		instance, err := consumer.New(c)
		if err != nil {
			return usage(err)
		}
		p.header()
		if err := instance.Run(ctx); err != nil {
			return err
		}
		return p.result(cmd.Context())
	}
	return cmd
}
