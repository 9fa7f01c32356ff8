// Package producer publishes messages with a delay.
//
// A message that is to be delayed is parked in Redis through a [Parker]. Where there is
// none, or with Config.Untracked, one whose delay equals a tier goes straight to that
// tier, and the broker does the rest; without a Parker, any other one goes to the entry
// exchange, from which a bridge takes it. One that is due at once goes to the ready exchange.
//
//	p, err := producer.New(producer.Config{AMQPURL: url, Topology: t})
//	go p.Run(ctx)
//	receipt, err := p.Publish(ctx, m, message.After(30*time.Minute))
//
// [Producer.Publish] returns nil only once the broker or Redis has taken
// responsibility for the message. It may be called from any number of
// goroutines, whose messages do not wait for each other's confirms.
package producer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/tracing"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/topology"
)

// Defaults of [Config].
const (
	defaultChannels       = 16
	defaultConnectionName = "delaybridge producer"
	defaultDrainTimeout   = 10 * time.Second
	defaultTimeout        = 30 * time.Second
)

// maxChannels bounds Config.Channels: more do not make a connection faster.
const maxChannels = 128

// Parker stores messages until shortly before they are due.
// *redisbridge.Park is one.
type Parker interface {
	// Park returns nil once m is stored, was stored before, or is overdue, as
	// the ticket says. An error that does not wrap ErrUnconfirmed means that m
	// is not stored. m is lent: it is another message once Park has returned.
	Park(ctx context.Context, m *message.Message, w message.When) (message.Ticket, error)
}

// Config of a [Producer].
type Config struct {
	// AMQPURL is the broker's URI, or file:///path: the file has it, and is read anew for each
	// connection. Required.
	AMQPURL string
	// TLS is what the parameters of an amqps:// URL are added to. Defaults to TLS 1.2 and the
	// system's authorities.
	TLS *tls.Config
	// Topology must be what was applied to the broker. Required.
	Topology *topology.Topology
	// Parker takes all messages that are to be delayed, so that they are tracked: they
	// can be looked up, listed, cancelled and rescheduled. Without one, messages whose
	// delay equals no tier go through the broker's inbox.
	Parker Parker
	// Untracked has messages whose delay equals a tier go straight there, past the
	// Parker: they need neither Redis nor a bridge. Defaults to false.
	Untracked bool
	// Channels is the most AMQP channels to publish over, 1 to 128. Each carries
	// messages of one tier, or of one routing key that are due at once: as many queues
	// that answer nothing hold up no message to others. Defaults to 16.
	Channels int
	// ConnectionName is shown in the management UI. Defaults to
	// "delaybridge producer".
	ConnectionName string
	// Timeout bounds a call of Publish whose context has no deadline. Defaults to
	// 30 s.
	Timeout time.Duration
	// GiveUpAfter ends Run when there was no connection to the broker for so
	// long. Defaults to never.
	GiveUpAfter time.Duration
	// DrainTimeout bounds how long Run goes on after its context has ended, for
	// the answers to what is being published. Defaults to 10 s.
	DrainTimeout time.Duration
	// Observe is told of each call of Publish when it returns. It is called from several
	// goroutines and must not block. Defaults to nothing.
	Observe func(Observation)
	// TracerProvider makes a span of each message, and puts its context into the
	// message's headers, for those who meet it later. otel.GetTracerProvider() is the
	// process's own. Defaults to none, which costs nothing.
	TracerProvider trace.TracerProvider
	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// Producer publishes messages. Make one with [New].
type Producer struct {
	config Config
	conn   *broker.Conn
	tracer *tracing.Tracer // nil where nothing is traced

	entries map[string]*routes
	lent    sync.Pool // of *message.Message, for the Parker

	began   atomic.Bool
	running chan struct{} // closed when Run is called
	gate    *gate
	queue   chan *request
	stopped chan struct{} // closed when the workers end
}

// New checks c, and reports every fault at once. It does no I/O, but to read files that hold a URL
// or certificates.
func New(c Config) (*Producer, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("producer: "+format, args...)) }
	if c.Topology == nil {
		fault("Config.Topology is missing")
	}
	if c.Channels == 0 {
		c.Channels = defaultChannels
	}
	if c.Channels < 1 || c.Channels > maxChannels {
		fault("Config.Channels is %d: use 1 to %d", c.Channels, maxChannels)
	}
	if c.GiveUpAfter < 0 {
		fault("Config.GiveUpAfter is %v: must not be negative", c.GiveUpAfter)
	}
	if c.DrainTimeout < 0 {
		fault("Config.DrainTimeout is %v: must not be negative", c.DrainTimeout)
	}
	if c.DrainTimeout == 0 {
		c.DrainTimeout = defaultDrainTimeout
	}
	if c.Timeout < 0 {
		fault("Config.Timeout is %v: must not be negative", c.Timeout)
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.ConnectionName == "" {
		c.ConnectionName = defaultConnectionName
	}
	conn, err := broker.New(broker.Config{
		URL: c.AMQPURL, TLS: c.TLS, Name: c.ConnectionName, About: "publishes messages with a delay, confirmed", GiveUpAfter: c.GiveUpAfter, Logger: c.Logger,
	})
	if err != nil {
		fault("Config.AMQPURL: %w", err)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	p := &Producer{
		config: c, conn: conn, gate: newGate(), tracer: tracing.New(c.TracerProvider, "producer"),
		queue: make(chan *request), running: make(chan struct{}), stopped: make(chan struct{}),
	}
	unanswered := broker.NewUnanswered()
	p.entries = map[string]*routes{"": defaultRoutes(c.Topology, unanswered)}
	for _, e := range c.Topology.Entries() {
		p.entries[e.Name] = routesOf(c.Topology, e.Name, unanswered)
	}
	return p, nil
}
