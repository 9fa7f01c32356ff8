package connect

import (
	"context"
	"errors"
	"log/slog"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/topology"
)

// WithBroker does work on the topology over a connection.
func WithBroker(ctx context.Context, a *cli.App, c cli.Config, work func(context.Context, topology.Channels) error) error {
	return WithBrokerAs(ctx, a, c, "topology", "a command looks at exchanges and queues, or creates or deletes them", work)
}

// closeWithin bounds how long the connection of a command is closed at its end.
const closeWithin = 5 * time.Second

// WithBrokerAs does work over a connection that says what it is for. The connection
// outlives ctx, so that work can put right what it has begun.
func WithBrokerAs(ctx context.Context, a *cli.App, c cli.Config, name, about string, work func(context.Context, topology.Channels) error) error {
	if c.LogLevel == slog.LevelInfo {
		c.LogLevel = slog.LevelWarn // that a short command has connected goes without saying
	}
	conn, err := broker.New(broker.Config{
		URL: c.AMQPURL, Name: "delaybridge " + name, About: about, GiveUpAfter: c.ConnectTimeout, Logger: a.Logger(c),
	})
	if err != nil {
		return err
	}
	defer conn.Start(context.WithoutCancel(ctx), closeWithin)()
	first, err := conn.Channel(ctx) // waits for the connection
	if err != nil {
		return err
	}
	_ = first.Close()
	return work(ctx, channels{context.WithoutCancel(ctx), conn})
}

// channels opens channels on a supervised connection.
type channels struct {
	ctx  context.Context //nolint:containedctx // the interface it implements has none
	conn *broker.Conn
}

func (c channels) Channel() (*amqp.Channel, error) { return c.conn.Channel(c.ctx) }

// Management returns a client of the management API for the virtual host of the AMQP URL.
func Management(c cli.Config) (*topology.Management, error) {
	if c.ManagementURL == "" {
		return nil, cli.Usage(errors.New("management-url is empty, and this command needs the management API: set it"))
	}
	if _, err := broker.New(broker.Config{URL: c.AMQPURL}); err != nil {
		return nil, err
	}
	uri, err := broker.ParseURI(c.AMQPURL)
	if err != nil {
		return nil, err
	}
	management, err := topology.NewManagement(c.ManagementURL, uri.Vhost)
	return management, err
}

// ManagementIfAny is [Management] for what does without the API: where management-url is
// empty, it returns nil.
func ManagementIfAny(c cli.Config) (*topology.Management, error) {
	if c.ManagementURL == "" {
		return nil, nil
	}
	return Management(c)
}
