package redisbridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"

	"github.com/delaybridge/delaybridge/internal/tracing"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/topology"
)

// ParkConfig of a [Park].
type ParkConfig struct {
	// Client is the connection to Redis. The Park does not close it. One that is
	// not of NewClient must not repeat commands by itself (MaxRetries -1), or
	// errors say less than the truth. Required.
	Client redis.UniversalClient
	// Topology must be the bridges' own. Required.
	Topology *topology.Topology
	// Owner is the broker that what is parked is to come out of, such as OwnerOf returns.
	// Where the prefix in Redis is another's, every method returns ErrForeign. Defaults to
	// not known, which compares nothing.
	Owner Owner
	// Window is for how long after it was published an ID is remembered, so that a
	// second message with it is told from the first one. While a message waits, its
	// ID always is. It is the bridges' own. Each message takes its place in Redis for
	// so long at least. Defaults to 0.
	Window time.Duration
	// TracerProvider makes a span of each message that is parked within a span that is
	// sampled; and of each that is cancelled or rescheduled, within such a span or since
	// its publisher has one. Defaults to none.
	TracerProvider trace.TracerProvider
	// Remember is for how long Redis knows of a message what became of it, cancelled or
	// delivered, where its consumer says so. Defaults to DefaultRemember.
	Remember time.Duration
	// Tombstones is for how long it is known of a message that it was cancelled or
	// rescheduled, from when it is due: the queue of its consumer may stand still for so long.
	// It is the same for all bridges, publishers and consumers. Defaults to
	// DefaultTombstones.
	Tombstones time.Duration
}

// Defaults of ParkConfig.
const (
	DefaultRemember   = 10 * time.Minute
	DefaultTombstones = 24 * time.Hour
)

// Park puts messages into Redis, to be promoted by the bridges. It may be used
// from many goroutines, whose messages then share round trips and flushes to
// disk.
type Park struct {
	config  ParkConfig
	scripts scripts
	keys    []shardKeys
	clocks  []*serverClock // one per shard, as each may be another server's
	leads   []any          // TTLs of the lanes in ms, longest first
	tracer  *tracing.Tracer

	entryName string // whose messages Cancel, Reschedule and Look mean
	batches   *batcher
	pool      *parkPool
	checked   *atomic.Bool // Redis holds the layout that the topology describes
}

// OfEntry returns p for the messages of another entry: an ID belongs to its entry, so
// Cancel, Reschedule and Look of the result find what was published to that one. The empty
// name is that of the default entry, which p of [NewPark] is for.
func (p *Park) OfEntry(name string) *Park {
	of := *p
	of.entryName = name
	return &of
}

// NewPark checks c. It does no I/O.
func NewPark(c ParkConfig) (*Park, error) {
	if c.Client == nil || c.Topology == nil {
		return nil, errors.New("redisbridge: ParkConfig needs Client and Topology")
	}
	if c.Window < 0 || c.Remember < 0 || c.Tombstones < 0 {
		return nil, errors.New("redisbridge: ParkConfig.Window, Remember and Tombstones must not be negative")
	}
	c.Remember = cmp.Or(c.Remember, DefaultRemember)
	c.Tombstones = cmp.Or(c.Tombstones, DefaultTombstones)
	p := &Park{config: c, scripts: newScripts(), keys: allKeys(c.Topology), batches: &batcher{}, pool: &parkPool{}, checked: &atomic.Bool{}, tracer: tracing.New(c.TracerProvider, tracedAs)}
	for _, lead := range slices.Backward(c.Topology.Leads()) {
		p.leads = append(p.leads, lead.Milliseconds())
	}
	for range p.keys {
		p.clocks = append(p.clocks, newServerClock())
	}
	p.batches.send = p.parkBatch
	return p, nil
}

// Park stores m, to be delivered when w says, and returns once Redis has it:
// with appendfsync always, once it is on disk. A delay runs from the call. Due
// times are by Redis' clock; what this machine's clock shows plays no part.
//
// While a message waits, another one with its ID, entry, content and delay or instant is
// the same message: the ticket says message.ParkedBefore. Trace context is no content. One
// with other content is refused: message.Conflict.
//
// The error wraps ErrUnconfirmed when it is unknown whether m was stored;
// after any other error it was not. That includes the answers by which a server
// refuses for now (LOADING, READONLY, BUSY, MASTERDOWN, NOREPLICAS and their
// like), where trying again later helps, and ErrFull.
func (p *Park) Park(ctx context.Context, m *message.Message, w message.When) (message.Ticket, error) {
	return p.parkAs(ctx, keyOf(m.Entry, m.ID), m, w, beginning{alone: true})
}

// parkAs parks m under a key, with what begins its record.
func (p *Park) parkAs(ctx context.Context, key string, m *message.Message, w message.When, begin beginning) (message.Ticket, error) {
	if p.tracer != nil && trace.SpanContextFromContext(ctx).IsSampled() {
		return p.parkTraced(ctx, p.parkHere(), key, m, w, begin)
	}
	return p.parkNow(ctx, key, m, w, begin)
}

func (p *Park) parkNow(ctx context.Context, key string, m *message.Message, w message.When, begin beginning) (message.Ticket, error) {
	called := time.Now()
	if err := p.check(ctx); err != nil {
		return message.Ticket{}, err
	}
	one := p.pool.take()
	one.shard, one.slot = locate(key, len(p.keys))
	one.key, one.called, one.when, one.alone = key, called, w, begin.alone
	one.stored = slices.Grow(one.stored, recordMaxHead+envelopeRoom+len(m.Body))
	one.stored = message.AppendEnvelope(begin.append(one.stored), m, idOf(key))
	asked := begin.asked
	if asked == (message.When{}) {
		asked = w
	}
	digest := contentOf(m, asked, one.stored[one.record().body():])
	copy(one.stored[digestAt:], digest[:])
	if err := p.batches.park(ctx, one); err != nil {
		return message.Ticket{}, fmt.Errorf("park message %s: %w", idOf(key), err)
	}
	ticket := one.ticket
	p.pool.put(one)
	return ticket, nil
}

// Check returns nil once Redis answers and holds the layout that the topology describes.
// All other methods see to that themselves, on first use.
func (p *Park) Check(ctx context.Context) error { return p.check(ctx) }

// check makes sure, on first use, that Redis holds the layout that the topology
// describes.
func (p *Park) check(ctx context.Context) error {
	if p.checked.Load() {
		return nil
	}
	if err := checkLayout(ctx, p.config.Client, p.config.Topology, p.config.Owner); err != nil {
		return err
	}
	p.checked.Store(true)
	return nil
}
