package redisbridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/defaults"
	"github.com/delaybridge/delaybridge/internal/sleep"
	"github.com/delaybridge/delaybridge/internal/tracing"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge/internal/installation"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store"
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
	// AMQPURL is that of the broker that what is parked is to come out of. Where the prefix in
	// Redis belongs to another virtual host, every method returns ErrForeign. While Redis knows
	// no installation the broker is asked whether it does: then Redis was emptied, and what
	// writes returns ErrForeign, too. Defaults to none: whatever bridges have not refused is taken.
	AMQPURL string
	// Window is for how long after it was published an ID is remembered, so that a
	// second message with it is told from the first one. While a message waits, its
	// ID always is. It is the bridges' own. Each message takes its place in Redis for
	// so long at least. Defaults to 0.
	Window time.Duration
	// Quotas are those of the entries, by their names; the empty name is the default entry's. They
	// are the same for all bridges and publishers. Defaults to none.
	Quotas map[string]Quota
	// TracerProvider makes a span of each message that is parked within a span that is
	// sampled; and of each that is cancelled or rescheduled, within such a span or since
	// its publisher has one. Defaults to none.
	TracerProvider trace.TracerProvider
	// Remember is for how long Redis knows of a message what became of it, cancelled or
	// delivered, where its consumer says so. Defaults to ten minutes.
	Remember time.Duration
	// Tombstones is for how long it is known of a message that it was cancelled or
	// rescheduled, from when it is due: the queue of its consumer may stand still for so long.
	// It is the same for all bridges, publishers and consumers. Defaults to
	// 24 hours.
	Tombstones time.Duration
	// WaitReplicas is how many replicas of Redis must have what is parked, cancelled or
	// rescheduled before that succeeds (WAIT), so that a failover to one of them does not
	// lose it. Where fewer have it after a second the error wraps ErrUnconfirmed: the primary
	// has it, and delivers it. Set it to the number of replicas of each primary: a failover may
	// promote any of them. Defaults to 0: the primary alone.
	WaitReplicas int
}

// Park puts messages into Redis, to be promoted by the bridges. It may be used
// from many goroutines, whose messages then share round trips and flushes to
// disk.
type Park struct {
	config    ParkConfig
	store     *store.Store
	tracer    *tracing.Tracer
	entryName string // whose messages Cancel, Reschedule and Get mean
}

// OfEntry returns p for the messages of another entry: an ID belongs to its entry, so
// Cancel, Reschedule and Get of the result find what was published to that one. The empty
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
	if c.Window < 0 || c.Remember < 0 || c.Tombstones < 0 || c.WaitReplicas < 0 {
		return nil, errors.New("redisbridge: ParkConfig.Window, Remember, Tombstones and WaitReplicas must not be negative")
	}
	c.Remember = cmp.Or(c.Remember, defaults.Remember)
	c.Tombstones = cmp.Or(c.Tombstones, defaults.Tombstones)
	if err := checkQuotas(c.Quotas); err != nil {
		return nil, err
	}
	return &Park{config: c, store: newStore(c), tracer: tracing.New(c.TracerProvider, tracedAs)}, nil
}

// ownerOf returns the owner that a URL names; what is wrong with it a connection says. Only the broker knows the cluster.
func ownerOf(amqpURL string) store.Owner {
	uri, err := broker.ParseURI(amqpURL)
	if amqpURL == "" || err != nil {
		return store.Owner{}
	}
	return store.Owner{VHost: uri.Vhost}
}

func newStore(c ParkConfig) *store.Store {
	var installed func(context.Context) bool
	if c.AMQPURL != "" {
		installed = func(ctx context.Context) bool { return installation.Known(ctx, c.AMQPURL, c.Topology) }
	}
	return store.New(store.Config{
		Installed: installed, Client: c.Client, Topology: c.Topology, Owner: ownerOf(c.AMQPURL),
		Window: c.Window, Remember: c.Remember, Tombstones: c.Tombstones, Quotas: quotasOf(c.Quotas),
		WaitReplicas: c.WaitReplicas,
	})
}

func quotasOf(quotas map[string]Quota) map[string]store.Quota {
	of := map[string]store.Quota{}
	for entry, q := range quotas {
		of[entry] = store.Quota(q)
	}
	return of
}

func checkQuotas(quotas map[string]Quota) error {
	for entry, q := range quotas {
		if q.Messages < 0 || q.Bytes < 0 || q.Delay < 0 || q.Body < 0 {
			return fmt.Errorf("redisbridge: the quota of entry %q must not be negative", entry)
		}
	}
	return nil
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
	return p.parkAs(ctx, m, w, store.Beginning{Alone: true})
}

// parkAs parks m, with what begins its record.
func (p *Park) parkAs(ctx context.Context, m *message.Message, w message.When, begin store.Beginning) (message.Ticket, error) {
	if p.tracer != nil && trace.SpanContextFromContext(ctx).IsSampled() {
		return p.parkTraced(ctx, p.parkHere(), m, w, begin)
	}
	return p.store.Park(ctx, m, w, begin)
}

// Check returns nil once Redis answers and holds the layout that the topology describes.
// All other methods see to that themselves, on first use.
func (p *Park) Check(ctx context.Context) error { return p.store.Check(ctx) }

// Arrive says what a consumer is to do with a message that has come, and notes down
// that it was delivered: from then on it is too late to cancel it. A message that was
// rescheduled while it was out of Redis' reach is parked again here, before Arrive tells
// that it is to be dropped.
//
// Until Arrive has returned without an error the message must be neither handled nor
// acknowledged. Calling it again is harmless.
func (p *Park) Arrive(ctx context.Context, m *message.Message) (message.Arrival, error) {
	arrival, err := p.store.Arrive(ctx, m)
	if err != nil {
		return message.Arrival{}, fmt.Errorf("arrival of message %s: %w", m.ID, err)
	}
	return arrival, nil
}

// Handled notes down how far a consumer is with a message that it was told to handle by
// [Park.Arrive], for [Park.Get]: one note for each queue, and eight in all. It is kept
// for ParkConfig.Remember, from its retry on where there is to be one. A note of a queue
// gives way to a later one, in whatever order they come. A message that is not known, or
// not any more, is no error.
func (p *Park) Handled(ctx context.Context, m *message.Message, h message.Handling) error {
	return p.store.Handled(ctx, m, h)
}

// Delay parks a message whose handling has failed, to come back to the queue
// m.Journey.Queue after d, of at most message.MaxDelay. It goes into no lane: a bridge
// publishes it to the retry exchange when it is due. Where the queue is gone by then,
// or not bound there by its name, the message ends in the unrouted queue.
//
// It returns nil once Redis has the message. Where an answer is missing it asks again, until
// ctx ends or Redis cannot be reached. After an error the message may be stored only where an
// answer was missing; calling Delay again stores it once. It makes a consumer.Delayer of the
// Park.
func (p *Park) Delay(ctx context.Context, m *message.Message, d time.Duration) error {
	if m.Journey.Queue == "" {
		return fmt.Errorf("delay message %s: its Journey names no queue to come back to", m.ID)
	}
	due := time.Now().Add(min(d, message.MaxDelay))
	retry := m.Retry()
	begin := store.Beginning{As: store.RetryKey(m.Entry, m.ID), Version: m.Journey.Version, Direct: true, Published: m.Journey.Published}
	for least := time.Millisecond; ; {
		wait := max(least, time.Until(due))
		ticket, err := p.parkAs(ctx, &retry, message.After(wait), begin)
		switch {
		case errors.Is(err, ErrUnconfirmed) && ctx.Err() == nil:
			sleep.For(ctx, retryPause) // and again under the same key, under which it is parked once
		case err != nil:
			return err
		case ticket.Parking == message.Overdue: // over before it was Redis' turn; nothing was stored
			least *= 2
		default:
			return nil
		}
	}
}

// Verify compares the keys that describe what waits with each other, and returns a line for
// each contradiction: a message that no key leads to, and so is never delivered, or an entry
// that would take a later message with the same ID with it. Miscounts are the parts of the
// schedule that have not as many entries as is said: a Redis that was killed in the middle of
// a script may leave that behind, which makes counts wrong. Verify reads all that is stored,
// key by key, so it tells the truth only while nothing is parked or promoted.
func (p *Park) Verify(ctx context.Context) (faults, miscounts []string, err error) {
	return p.store.Verify(ctx)
}
