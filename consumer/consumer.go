// Package consumer turns deliveries into handler calls, and their outcomes into
// acknowledgements, retries or quarantine.
//
// A message whose handler fails is handled again after a pause, which grows from
// attempt to attempt ([Retry]); after the last one it goes to quarantine, with the
// error and a line for each attempt. With a [Delayer] it waits for its retry parked in
// Redis, and comes back to this queue alone; without, unacknowledged in the consumer's
// hands.
//
// Delivery is at least once: a message is acknowledged only after its handler
// has returned nil, so a crash in between delivers it again, to this consumer
// or another one. A handler therefore has to recognise what it has done
// already; package orders shows how. Or Config.Ledger does that for it, see
// package ledger.
//
//	c, err := consumer.New(consumer.Config{
//		AMQPURL: url, Topology: t, Queue: "billing", Bind: []string{"order.unpaid"},
//		Handler: consumer.HandlerFunc(closeOrder),
//	})
//	...
//	err = c.Run(ctx) // until ctx ends and running handlers are done
package consumer

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/consumer/internal/once"
	"github.com/delaybridge/delaybridge/consumer/internal/outage"
	"github.com/delaybridge/delaybridge/consumer/internal/upkeep"
	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/health"
	"github.com/delaybridge/delaybridge/internal/tracing"
)

// Consumer consumes one queue. Make one with [New].
type Consumer struct {
	config     Config
	log        *slog.Logger
	consuming  *broker.Conn
	publishing *broker.Conn // its own, because a blocked one would hold back the acknowledgements
	tracer     *tracing.Tracer
	ledger     *once.Ledger // of Config.Ledger
	queue      *upkeep.Queue
	ready      chan struct{}
	isReady    func() // closes ready, once
	intake     intake

	noLedger, noArrivals, noDelayer outage.Outage
}

// New checks c and fills in the defaults. It does no I/O, but to read files that hold a
// URL or certificates. The error names every fault of c at once.
func New(c Config) (*Consumer, error) {
	c = c.withDefaults()
	faults := c.faults()
	connect := func(name, about string) *broker.Conn {
		conn, err := broker.New(broker.Config{
			URL: c.AMQPURL, TLS: c.TLS, Name: name, About: about, Properties: map[string]string{"queue": c.Queue}, StartWithin: c.StartWithin, Logger: c.Logger,
		})
		if err != nil {
			faults = append(faults, err)
		}
		return conn
	}
	log := c.Logger.With("queue", c.Queue)
	ledger := &once.Ledger{Marks: c.Ledger, Queue: c.Queue, Logger: log}
	if c.Ledger != nil && c.Handler != nil {
		c.Handler = handleOnce(ledger, c.Handler)
	}
	consumer := &Consumer{
		config: c, log: log, ledger: ledger, consuming: connect(c.ConnectionName, "handles the messages of its queue as they become due"),
		tracer: tracing.New(c.TracerProvider, "consumer"), ready: make(chan struct{}),
		noLedger:   outage.Outage{Begins: "the ledger cannot be asked; messages stay unacknowledged and wait", Ends: "the ledger answers again"},
		noArrivals: outage.Outage{Begins: "cannot see whether messages were cancelled; messages stay unacknowledged and wait", Ends: "it can be seen again whether messages were cancelled"},
		noDelayer:  outage.Outage{Begins: "cannot park messages for their retry; messages stay unacknowledged and wait", Ends: "messages are parked for their retry again"},
	}
	consumer.isReady = sync.OnceFunc(func() { close(consumer.ready) })
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	consumer.config.Handler = chain(c.Handler, c.Middleware...)
	consumer.queue = upkeep.New(upkeep.Config{
		Topology: c.Topology, Conn: consumer.consuming, Queue: c.Queue,
		Bind: c.Bind, Arguments: c.BindArguments, Entry: c.Entry, Kind: c.readyKind(), SingleActive: c.SingleActive,
		Retries: c.Delayer != nil, Every: c.RepairEvery,
		ErrMissing: ErrNoQueue, ErrDiffers: ErrQueueDiffers, Logger: log,
	})
	consumer.publishing = connect(c.ConnectionName+", quarantine", "puts into quarantine what could not be handled")
	return consumer, errors.Join(faults...)
}

// Ready is closed once the queue is declared, bound and being consumed for the
// first time.
func (c *Consumer) Ready() <-chan struct{} { return c.ready }

// Check returns nil while the consumer is connected and its queue knows it. The error says
// what is not so, and has lasted for longer than ten seconds, or since the start. It does
// no I/O.
func (c *Consumer) Check() error {
	now := time.Now()
	if err := c.intake.check(now); err != nil {
		// A lost connection is why the queue does not know it.
		if lost := c.consuming.State().Check(now, health.Grace); lost != nil {
			return lost
		}
		return fmt.Errorf("queue %q: %w", c.config.Queue, err)
	}
	return c.publishing.State().Check(now, health.Grace)
}

// Reconnects is how often a connection to the broker was made again after it was lost.
func (c *Consumer) Reconnects() int64 {
	n := 0
	for _, conn := range []*broker.Conn{c.consuming, c.publishing} {
		n += conn.State().Reconnects()
	}
	return int64(n)
}

// intake is whether the queue is being consumed.
type intake struct {
	mu       sync.Mutex
	began    bool
	stopping bool
	on       bool
	since    time.Time
	fault    error // why not
}

func (i *intake) set(on bool, fault error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.on != on {
		i.since = time.Now()
	}
	i.on, i.fault, i.began = on, fault, i.began || on
}

func (i *intake) stop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stopping = true
}

func (i *intake) check(now time.Time) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.stopping:
		return errors.New("the consumer is stopping")
	case i.on, i.began && now.Sub(i.since) < health.Grace:
		return nil
	case i.fault != nil:
		return fmt.Errorf("it is not being consumed: %w", i.fault)
	}
	return errors.New("it is not being consumed yet")
}
