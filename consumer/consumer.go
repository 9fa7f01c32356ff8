// Package consumer turns deliveries into handler calls, and their outcomes into
// acknowledgements, retries or quarantine.
//
// Delivery is at least once: a message is acknowledged only after its handler
// has returned nil, so a crash in between delivers it again, to this consumer
// or another one. A handler therefore has to recognise what it has done
// already; package orders shows how.
//
//	c, err := consumer.New(consumer.Config{
//		URL: url, Topology: t, Queue: "billing", Bind: []string{"order.unpaid"},
//		Handler: consumer.HandlerFunc(closeOrder),
//	})
//	...
//	err = c.Run(ctx) // until ctx ends and the work in hand is done
package consumer

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/topology"
)

// Defaults of [Config].
const (
	DefaultConcurrency  = 10
	DefaultPrefetch     = 100
	DefaultMaxAttempts  = 5
	DefaultRetryPause   = time.Second
	DefaultDrainTimeout = 30 * time.Second
	DefaultAssertEvery  = time.Minute
)

// Limits of [Config].
const (
	// MaxPrefetch is the largest number basic.qos can carry.
	MaxPrefetch = 1<<16 - 1
	maxName     = 255 // bytes of an AMQP short string
)

// Config says what to consume and how. URL, Topology, Queue and Handler are
// required.
type Config struct {
	// URL is an AMQP URI: amqp:// or amqps://user:password@host:port/vhost.
	URL string
	// Topology names the ready exchange and the quarantine.
	Topology *topology.Topology
	// Queue is consumed. Without Bind it must exist, with whatever arguments.
	Queue string
	// Bind has the consumer declare Queue, a durable quorum queue, and bind it
	// to the ready exchange by these routing keys, in which * stands for one
	// word and # for any number. Defaults to none.
	Bind []string
	// AssertEvery is how often the consumer declares Queue and its bindings
	// again, in case that somebody has deleted them, or the ready exchange with
	// them: a declaration and one request for each binding, on a channel of
	// their own. Messages that fall due meanwhile are in the unrouted queue. A
	// deleted queue is declared again at once. Without Bind it means nothing.
	// Defaults to DefaultAssertEvery.
	AssertEvery time.Duration
	// Handler is called for each message, from several goroutines at once
	// unless Concurrency is 1.
	Handler Handler

	// Concurrency is the most calls of Handler at a time. With 1, messages are
	// handled in the order of the queue, except for those that are retried.
	// Defaults to DefaultConcurrency.
	Concurrency int
	// Prefetch is the most messages that may be unacknowledged at a time: being
	// handled, waiting for a retry or waiting for their turn. At least
	// Concurrency and at most MaxPrefetch. Defaults to DefaultPrefetch, or to
	// Concurrency where that is more.
	Prefetch int
	// MaxAttempts is how often a message is handled before it is quarantined.
	// Defaults to DefaultMaxAttempts.
	MaxAttempts int
	// RetryPause is waited before the second attempt, give or take a half, and
	// doubles from attempt to attempt. A message stays unacknowledged
	// meanwhile, so all of its pauses must fit into the broker's
	// consumer_timeout (30 minutes by default). Defaults to DefaultRetryPause.
	RetryPause time.Duration
	// DrainTimeout is how long handlers may go on after Run's context has
	// ended; then their own contexts end. Defaults to DefaultDrainTimeout.
	DrainTimeout time.Duration
	// GiveUpAfter ends Run with ErrUnreachable when there was no connection for
	// so long. Defaults to never.
	GiveUpAfter time.Duration

	// ConnectionName is shown in the management UI. Defaults to "consumer of "
	// and the queue.
	ConnectionName string
	// Observe is told of each message the consumer is done with. It is called
	// from several goroutines and must not block. Defaults to nothing.
	Observe func(Observation)
	// Logger defaults to none.
	Logger *slog.Logger
}

// Consumer consumes one queue. Make one with [New].
type Consumer struct {
	config     Config
	log        *slog.Logger
	consuming  *broker.Conn
	publishing *broker.Conn // its own, because a blocked one would hold back the acknowledgements
	ready      chan struct{}
	isReady    func() // closes ready, once
}

// New checks c and fills in the defaults. It does no I/O. The error names every
// fault of c at once.
func New(c Config) (*Consumer, error) {
	c = c.withDefaults()
	faults := c.faults()
	connect := func(name string) *broker.Conn {
		conn, err := broker.New(broker.Config{URL: c.URL, Name: name, GiveUpAfter: c.GiveUpAfter, Logger: c.Logger})
		if err != nil {
			faults = append(faults, err)
		}
		return conn
	}
	consumer := &Consumer{config: c, log: c.Logger.With("queue", c.Queue), consuming: connect(c.ConnectionName), ready: make(chan struct{})}
	consumer.isReady = sync.OnceFunc(func() { close(consumer.ready) })
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	consumer.publishing = connect(c.ConnectionName + ", quarantine")
	return consumer, errors.Join(faults...)
}

// Ready is closed once the queue is declared, bound and being consumed for the
// first time.
func (c *Consumer) Ready() <-chan struct{} { return c.ready }

func (c Config) withDefaults() Config {
	if c.Concurrency == 0 {
		c.Concurrency = DefaultConcurrency
	}
	if c.Prefetch == 0 {
		c.Prefetch = max(DefaultPrefetch, c.Concurrency)
	}
	if c.MaxAttempts == 0 {
		c.MaxAttempts = DefaultMaxAttempts
	}
	if c.RetryPause == 0 {
		c.RetryPause = DefaultRetryPause
	}
	if c.DrainTimeout == 0 {
		c.DrainTimeout = DefaultDrainTimeout
	}
	if c.AssertEvery == 0 {
		c.AssertEvery = DefaultAssertEvery
	}
	if c.ConnectionName == "" {
		c.ConnectionName = "consumer of " + c.Queue
	}
	if c.Observe == nil {
		c.Observe = func(Observation) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) faults() (faults []error) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("consumer: "+format, args...)) }
	if c.Handler == nil {
		fault("Handler is missing")
	}
	switch {
	case c.Queue == "":
		fault("Queue is empty: name the queue to consume")
	case len(c.Queue) > maxName:
		fault("queue name of %d bytes is too long: AMQP allows %d (it starts with %.40q)", len(c.Queue), maxName, c.Queue)
	case len(c.Bind) > 0 && strings.HasPrefix(c.Queue, "amq."):
		fault("queue %q: names that start with amq. belong to the broker", c.Queue)
	}
	switch {
	case c.Topology == nil:
		fault("Topology is missing")
	case keepsWaiting(c.Topology, c.Queue):
		fault("queue %q belongs to the bridge, and whoever consumes it takes messages before they are due: consume a queue bound to %q instead", c.Queue, c.Topology.ReadyExchange())
	}
	for _, key := range c.Bind {
		if key == "" || len(key) > maxName {
			fault("binding key %.40q: use 1 to %d bytes", key, maxName)
		}
	}
	if c.Concurrency < 1 {
		fault("Concurrency %d: use at least 1", c.Concurrency)
	}
	if c.Prefetch < c.Concurrency || c.Prefetch > MaxPrefetch {
		fault("Prefetch %d: use at least Concurrency (%d) and at most %d", c.Prefetch, c.Concurrency, MaxPrefetch)
	}
	if c.MaxAttempts < 1 {
		fault("MaxAttempts %d: use at least 1", c.MaxAttempts)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"RetryPause", c.RetryPause}, {"DrainTimeout", c.DrainTimeout}, {"GiveUpAfter", c.GiveUpAfter}, {"AssertEvery", c.AssertEvery}} {
		if d.value < 0 {
			fault("%s %v: must not be negative", d.name, d.value)
		}
	}
	return faults
}

// keepsWaiting reports whether queue is one in which messages wait for their
// due time, which the queues for people, unrouted and quarantine, are not.
func keepsWaiting(t *topology.Topology, queue string) bool {
	if queue == t.Unrouted() || queue == t.Quarantine() {
		return false
	}
	return slices.ContainsFunc(t.Queues(), func(q topology.Queue) bool { return q.Name == queue })
}
