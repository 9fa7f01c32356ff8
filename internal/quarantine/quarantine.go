// Package quarantine looks at the messages that no consumer could process, sends them on,
// and removes them.
//
// All of it is done over AMQP by a consumer of the quarantine queue. What it looks at
// is unacknowledged, and so hidden from others, until it ends; then the broker puts it
// back. A message leaves the queue only once it has been written out
// ([Quarantine.Purge]), or the broker has confirmed its copy ([Quarantine.Replay]): so
// each of these can be interrupted at any point, and loses nothing.
//
// No more than a window of messages is in this process at a time.
package quarantine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/tracing"
	"github.com/delaybridge/delaybridge/topology"
)

// Config of a [Quarantine]. URL and Topology are required.
type Config struct {
	// URL is an AMQP URI: amqp:// or amqps://user:password@host:port/vhost.
	URL      string
	Topology *topology.Topology
	// Queue is the one to work on. Defaults to the topology's quarantine.
	Queue string
	// GiveUpAfter is how long to wait for a connection. Defaults to for ever.
	GiveUpAfter time.Duration
	// Logger defaults to none.
	Logger *slog.Logger
	// TracerProvider makes the spans of replayed messages. Defaults to none.
	TracerProvider trace.TracerProvider
}

const tracedAs = "internal/quarantine"

// Quarantine is the queue of that name, or another one that keeps messages for people. Make one with [New].
type Quarantine struct {
	config Config
	tracer *tracing.Tracer // nil where nothing is traced
}

// New checks c. It does no I/O.
func New(c Config) (*Quarantine, error) {
	if c.Topology == nil {
		return nil, errors.New("quarantine: Config needs Topology")
	}
	c.Queue = cmp.Or(c.Queue, c.Topology.Quarantine())
	q := &Quarantine{config: c, tracer: tracing.New(c.TracerProvider, tracedAs)}
	_, err := q.conn("")
	return q, err
}

func (q *Quarantine) conn(purpose string) (*broker.Conn, error) {
	return broker.New(broker.Config{
		URL: q.config.URL, Name: "delaybridge quarantine" + purpose, About: "a command looks at the quarantine, and hides meanwhile what it has looked at", GiveUpAfter: q.config.GiveUpAfter, Logger: q.config.Logger,
	})
}

// Look shows each message that f chooses, at most limit of them unless that is 0, and
// leaves it where it is. An error of show ends it.
func (q *Quarantine) Look(ctx context.Context, f Filter, limit int, show func(*Message) error) error {
	return q.connected(ctx, func(w *walk) error {
		return w.all(ctx, func(m *Message, _ func() error) (bool, error) {
			if !f.Matches(m) {
				return true, nil
			}
			w.matched++
			return w.matched != limit, show(m)
		})
	})
}

// Purge removes each message that f chooses, at most limit of them unless that is 0,
// after it was shown. An error of show ends it, and the message stays.
func (q *Quarantine) Purge(ctx context.Context, f Filter, limit int, show func(*Message) error) error {
	return q.connected(ctx, func(w *walk) error {
		return w.all(ctx, func(m *Message, remove func() error) (bool, error) {
			if !f.Matches(m) {
				return true, nil
			}
			w.matched++
			if err := show(m); err != nil {
				return false, err
			}
			return w.matched != limit, remove()
		})
	})
}

// connected does work over connections of its own. They outlive ctx, so that work can
// finish what it has begun.
func (q *Quarantine) connected(ctx context.Context, work func(*walk) error) error {
	consuming, err := q.conn("")
	if err != nil {
		return err
	}
	publishing, err := q.conn(", replay") // a blocked one would hold back the acknowledgements
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var connections sync.WaitGroup
	defer func() {
		stop()
		connections.Wait()
	}()
	w := &walk{topology: q.config.Topology, queue: q.config.Queue, consuming: consuming, publishing: publishing, running: running}
	w.connect = sync.OnceFunc(func() {
		connections.Go(func() { _ = publishing.Run(running) }) // what it returns, Channel does, too
	})
	connections.Go(func() { _ = consuming.Run(running) }) // its end gives back what is not acknowledged
	defer w.leave()
	if err := work(w); err != nil {
		return fmt.Errorf("%s: %w", q.config.Queue, err)
	}
	return nil
}
