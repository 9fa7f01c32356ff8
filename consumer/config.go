package consumer

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.opentelemetry.io/otel/trace"

	"github.com/delaybridge/delaybridge/consumer/ledger"
	"github.com/delaybridge/delaybridge/internal/defaults"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/topology"
)

// Defaults of [Config], beside those of package defaults.
const (
	defaultConcurrency = 10
	defaultRepairEvery = time.Minute
)

// Limits of [Config].
const (
	// maxPrefetch is the largest number basic.qos can carry.
	maxPrefetch = 1<<16 - 1
	maxName     = 255 // bytes of an AMQP short string
)

// Config says what to consume and how. AMQPURL, Topology, Queue and Handler are
// required.
type Config struct {
	// AMQPURL is an AMQP URI: amqp:// or amqps://user:password@host:port/vhost, or several hosts
	// of a cluster with commas between them, which are tried in random order.
	AMQPURL string
	// TLS is what the parameters of an amqps:// URL are added to. Defaults to TLS 1.2 and the
	// system's authorities.
	TLS *tls.Config
	// Topology names the ready exchange and the quarantine.
	Topology *topology.Topology
	// Queue is consumed. Without Bind it must exist, with whatever arguments.
	Queue string
	// Bind has the consumer declare Queue, a durable quorum queue, and bind it
	// to the ready exchange of Entry by these routing keys; of a topic, * stands for one
	// word and # for any number. Defaults to none, or to one empty key with BindArguments.
	Bind []string
	// Entry is whose ready exchange Bind means, one of the topology's entries. Defaults
	// to the default one.
	Entry string
	// BindArguments go with each binding to a ready exchange of the type headers: the headers
	// that a message must have, and x-match (all, any, all-with-x, any-with-x). A value
	// matches one of its own type. Defaults to none.
	BindArguments map[string]any
	// RepairEvery is how often the consumer declares Queue and its bindings
	// again, in case they were deleted, or the ready exchange with them: a declaration and one request for each binding, on a channel of
	// their own. Messages that fall due meanwhile are in the unrouted queue. After
	// a failure it is done again sooner, and a deleted queue is declared again at
	// once. Without Bind only the binding for retries is repaired, which a Delayer needs.
	// Defaults to a minute.
	RepairEvery time.Duration
	// Handler is called for each message, from several goroutines at once
	// unless Concurrency is 1.
	Handler Handler
	// Ledger has Handler called once for each message ID of Queue, whatever is
	// delivered again: a duplicate is acknowledged, with the outcome Duplicate.
	// In the handler's own database, effect and mark are one transaction, which the
	// handler finds in its context; see package ledger. A message without an ID is
	// quarantined. Defaults to none.
	Ledger ledger.Ledger

	// Arrivals says of each message that has come whether it is still wanted: one
	// that was cancelled, or rescheduled, on its way is dropped. From its answer on
	// it is too late to cancel the message. A *redisbridge.Park is one. While it
	// cannot be asked, messages stay unacknowledged, or in the queue. Defaults to none: everything
	// that comes is handled.
	Arrivals Arrivals
	// Middleware is put around Handler, to do something before or after it, or instead. Each makes
	// a handler of another one; the first is called first. Defaults to none.
	Middleware []func(Handler) Handler

	// Concurrency is the most calls of Handler at a time. With 1, messages are
	// handled in the order of the queue, except for those that are retried.
	// Defaults to 10.
	Concurrency int
	// Prefetch is the most messages that may be unacknowledged at a time: being
	// handled, waiting for a retry or waiting for their turn. At least
	// Concurrency and at most 65,535. Defaults to 20, or to twice
	// Concurrency where that is more.
	//
	// With slow handlers keep it small: a message that waits for half of ConsumerTimeout is
	// given back, and delivered again. With the defaults, messages of one key (OrderBy) that
	// take 13 minutes each stay within the 20 times that RabbitMQ allows.
	Prefetch int
	// ConsumerTimeout is after how long RabbitMQ takes back a message that is not acknowledged:
	// its consumer_timeout, or the policy or argument of the queue, if that is less. The
	// consumer gives a message back before: after half of it where no handler has begun it,
	// after seven eighths where it waits for the Delayer or the quarantine. Handlers must be
	// done in half of it. Defaults to 30 minutes, which is RabbitMQ's own; set it when the broker's is shorter.
	ConsumerTimeout time.Duration
	// OrderBy has messages with the same key, such as the ID of an order, handled one
	// at a time and in the order of the queue, and all others beside them; "" is no
	// key. What waits for its turn takes part of Prefetch. A message whose
	// retry waits in the consumer holds back those behind it; one whose retry waits with a
	// Delayer lets them pass. It is called once for each delivery, in order, and must not block.
	// Several consumers of one queue do not know of each other: see SingleActive.
	// Defaults to none.
	OrderBy func(message.Message) string
	// SingleActive has the broker give all messages to one consumer of the queue at a
	// time, and to another one when that is gone. It is an argument of the queue that
	// Bind declares; other queues are as they are.
	SingleActive bool
	// Retry says how often a message is handled, after which pauses, before it is
	// quarantined.
	Retry Retry
	// Delayer is where a message waits for its retry. The consumer binds Queue to the
	// topology's retry exchange, by its name, which takes write permission for the
	// queue and read permission for the exchange. While the Delayer cannot be reached
	// the message stays unacknowledged.
	//
	// Without one a message waits unacknowledged in the consumer, and its attempts count anew
	// when that ends. Its last attempt begins within three quarters of ConsumerTimeout: pauses
	// are cut so that it does, and what fails later is quarantined. So the defaults of
	// Retry span a quarter of an hour then, and a day or more with a Delayer.
	Delayer Delayer
	// DrainTimeout is how long handlers may go on after Run's context has
	// ended; then their own contexts end. Defaults to 30 s.
	DrainTimeout time.Duration
	// StartWithin ends Run with ErrUnreachable when the broker cannot be reached for so
	// long at the start. Once the consumer works, it waits as long as it takes. Defaults
	// to never.
	StartWithin time.Duration
	// WaitForTopology has a first start wait for the topology, and for a Queue that it
	// does not declare, where Run otherwise ends with ErrMissing or ErrNoQueue. Defaults
	// to false.
	WaitForTopology bool

	// ConnectionName is shown in the management UI. Defaults to "consumer of "
	// and the queue.
	ConnectionName string
	// Observe is told of each message the consumer is done with. It is called
	// from several goroutines and must not block. Defaults to nothing.
	Observe func(Observation)
	// TracerProvider makes a span of each delivery, and one of each call of Handler,
	// which finds it in its context. A message whose publisher has decided not to be
	// traced gets none. Defaults to none, which costs nothing.
	TracerProvider trace.TracerProvider
	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Concurrency == 0 {
		c.Concurrency = defaultConcurrency
	}
	if len(c.Bind) == 0 && len(c.BindArguments) > 0 {
		c.Bind = []string{""}
	}
	if c.Prefetch == 0 {
		c.Prefetch = min(max(defaults.Prefetch, 2*c.Concurrency), maxPrefetch)
	}
	if c.Delayer == nil {
		c.Retry = c.Retry.Held()
	}
	c.Retry = c.Retry.withDefaults()
	if c.DrainTimeout == 0 {
		c.DrainTimeout = defaults.ConsumerDrainTimeout
	}
	if c.RepairEvery == 0 {
		c.RepairEvery = defaultRepairEvery
	}
	if c.ConsumerTimeout == 0 {
		c.ConsumerTimeout = defaults.ConsumerTimeout
	}
	if c.ConnectionName == "" {
		c.ConnectionName = "consumer of " + c.Queue
	}
	if c.Observe == nil {
		c.Observe = func(Observation) {}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (c Config) faults() (faults []error) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("consumer: "+format, args...)) }
	if c.Handler == nil {
		fault("Handler is missing")
	}
	if slices.ContainsFunc(c.Middleware, func(m func(Handler) Handler) bool { return m == nil }) {
		fault("Middleware: one of them is nil")
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
		fault("queue %q belongs to the bridge, and a consumer of it takes messages before they are due: consume a queue bound to %q instead", c.Queue, c.Topology.ReadyExchange())
	}
	if t := c.Topology; t != nil && c.Delayer != nil && (c.Queue == t.Unrouted() || c.Queue == t.Quarantine()) {
		fault("queue %q: nothing is to come back to it; leave the Delayer out", c.Queue)
	}
	if c.SingleActive && len(c.Bind) == 0 {
		fault("SingleActive: without Bind the queue is as its owner has declared it")
	}
	c.bindingFaults(fault)
	if c.Concurrency < 1 {
		fault("Concurrency %d: use at least 1", c.Concurrency)
	}
	if c.Prefetch < c.Concurrency || c.Prefetch > maxPrefetch {
		fault("Prefetch %d: use at least Concurrency (%d) and at most %d", c.Prefetch, c.Concurrency, maxPrefetch)
	}
	c.Retry.faults(fault)
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"DrainTimeout", c.DrainTimeout}, {"StartWithin", c.StartWithin}, {"RepairEvery", c.RepairEvery}, {"ConsumerTimeout", c.ConsumerTimeout}} {
		if d.value < 0 {
			fault("%s %v: must not be negative", d.name, d.value)
		}
	}
	return faults
}

func (c Config) bindingFaults(fault func(format string, args ...any)) {
	kind := c.readyKind()
	if kind == "" {
		fault("Entry %q: the topology has no entry of that name; see the setting entries", c.Entry)
		return
	}
	if c.Entry != "" && len(c.Bind) == 0 {
		fault("Entry %q: without Bind the queue is bound as its owner has bound it", c.Entry)
	}
	takesAll := kind == amqp.ExchangeFanout || kind == amqp.ExchangeHeaders
	for _, key := range c.Bind {
		if key == "" && !takesAll || len(key) > maxName {
			fault("binding key %.40q: use 1 to %d bytes", key, maxName)
		}
	}
	if len(c.BindArguments) > 0 && kind != amqp.ExchangeHeaders {
		fault("BindArguments: the ready exchange of entry %q is of the type %s, and only one of the type headers looks at them", c.Entry, kind)
	}
	if err := amqp.Table(c.BindArguments).Validate(); err != nil {
		fault("BindArguments: %v", err)
	}
}

// readyKind is the type of the ready exchange that Queue is bound to, and "" if there is none.
func (c Config) readyKind() string {
	if c.Entry == "" || c.Topology == nil {
		return amqp.ExchangeTopic
	}
	for _, e := range c.Topology.Entries() {
		if e.Name == c.Entry {
			return e.Kind
		}
	}
	return ""
}

// keepsWaiting reports whether queue is one in which messages wait for their
// due time, which the queues for people, unrouted and quarantine, are not.
func keepsWaiting(t *topology.Topology, queue string) bool {
	if queue == t.Unrouted() || queue == t.Quarantine() {
		return false
	}
	return slices.ContainsFunc(t.Queues(), func(q topology.Queue) bool { return q.Name == queue })
}
