// Package redisbridge is Redis on one side and the broker's tiers on the other:
// it parks messages, and promotes them into a lane shortly before they are due.
//
// A [Park] is what publishers use; any number of [Bridge] processes promote.
// Each shard has one owner at a time, under a lease that every claim renews, so
// that each lane has one writer, which publishes in due order. A message goes
//
//	parked -> claimed -> published -> confirmed -> settled
//
// and may be forgotten only after the last step. A bridge that dies in between leaves it
// claimed, and the shard's next owner starts by putting it back: it may then be
// delivered twice, and is never lost. docs/ARCHITECTURE.md has the whole story.
package redisbridge

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/tracing"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store"
	"github.com/delaybridge/delaybridge/topology"
)

// Defaults of [Config].
const (
	DefaultLease        = 5 * time.Second
	DefaultMaxInFlight  = 2048
	DefaultDrainTimeout = 20 * time.Second
	DefaultRepairEvery  = time.Minute
	DefaultShowEvery    = 10 * time.Second
)

// ShowNever as Config.ShowEvery has the bridge show nothing.
const ShowNever = -1

// Config of a [Bridge].
type Config struct {
	// Client is the connection to Redis. The Bridge does not close it. Required.
	Client redis.UniversalClient
	// AMQPURL is the broker's URI. Required.
	AMQPURL string
	// Topology must be the same for all bridges and producers. Required.
	Topology *topology.Topology
	// Name starts the bridge's ID and its connections' names. Defaults to the
	// host's name.
	Name string
	// Lease is how long a shard stays with a bridge that is not heard of. When a
	// bridge dies, another one takes its messages over once the lease is over, or a
	// second later; the lanes make up for that where their TTL is longer.
	// Defaults to DefaultLease.
	Lease time.Duration
	// MaxInFlight bounds the messages of one shard that are claimed and not yet
	// settled. Defaults to DefaultMaxInFlight.
	MaxInFlight int
	// DrainTimeout bounds how long Run goes on after its context has ended,
	// for the answers to what it has published. Defaults to DefaultDrainTimeout.
	DrainTimeout time.Duration
	// RepairEvery is how often one of the bridges looks for exchanges, queues
	// and bindings that were deleted, and puts them back. What a bridge
	// stumbles over it puts back at once, if its user may configure. As often it
	// tries messages of an entry that is not configured, and has no ready
	// exchange. Defaults to DefaultRepairEvery.
	RepairEvery time.Duration
	// ShowEvery is how often, at most, one of the bridges renews what the management UI
	// shows of Redis: how much is parked, and when the next message is due. That is the
	// name of an empty queue, which goes with the bridge; it takes the configure
	// permission for <prefix>.(…) and without that nothing is shown. While nothing changes
	// it looks a third as often. Defaults to DefaultShowEvery; ShowNever is never.
	ShowEvery time.Duration
	// Adopt takes over a prefix in Redis that is another installation's: one that is of
	// another virtual host, or of a cluster with another name. Bridges of that one end
	// within 15 seconds; stop them first. Without it Run returns ErrForeign. Defaults to
	// false.
	Adopt bool
	// Window is for how long after it was published an ID is remembered; see
	// ParkConfig.Window. Without one, two messages with the same ID that reach the inbox
	// are two messages. Defaults to 0.
	Window time.Duration
	// Tombstones is ParkConfig.Tombstones. Defaults to DefaultTombstones.
	Tombstones time.Duration
	// BrokerClockWithin says that every node of the broker sets the header timestamp_in_ms
	// of each message that is published
	// (message_interceptors.incoming.set_header_timestamp.overwrite = true, RabbitMQ 3.12 and
	// later), by a clock that is never further than this from Redis'. The relative delay of a
	// message of the inbox then begins this much after the broker took it, or when a bridge
	// takes it in if that is sooner. Where a node does not overwrite the header, a publisher
	// can have a message delivered early. Defaults to 0: the header means nothing.
	BrokerClockWithin time.Duration
	// StartWithin ends Run with ErrUnreachable when a server cannot be reached
	// for so long at the start. Once a bridge works, it waits for servers as
	// long as it takes. Defaults to never.
	StartWithin time.Duration
	// Observe is called for each parked message at each step, from many
	// goroutines; it must not block. The bridge goes on only when it has
	// returned: a process that ends within ends exactly at this boundary. path
	// is empty at StepClaimed, where it is not known yet. The broker's confirm
	// may overtake StepPublished. Defaults to nothing.
	Observe func(step Step, id string, path message.Path)
	// ObserveConfirm is told how long the broker took to answer for a promoted message,
	// and the answer: nil where it has the message. It is called likewise. Defaults to
	// nothing.
	ObserveConfirm func(took time.Duration, answer error)
	// Management is where to look, every RepairEvery, for policies that override the
	// arguments of the topology's queues ([ConditionPolicy]). Without it the bridge sees none.
	Management *topology.Management
	// TracerProvider makes spans of each message that carries a context which is
	// sampled, and of no other: one when it is parked out of the inbox, and one when it
	// is promoted. Defaults to none, which costs nothing.
	TracerProvider trace.TracerProvider
	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// Bridge promotes parked messages. Make one with [New].
type Bridge struct {
	config         Config
	log            *slog.Logger
	id             string
	made           time.Time // ticks are counted from here
	conn           *broker.Conn
	consume        *broker.Conn // apart, since the broker may block a publishing connection
	store          *store.Store
	park           *Park // for the intake
	register       *register
	conditions     *conditions
	unanswered     *broker.Unanswered // what the intake publishes
	repairs        *repairs
	readyExchanges *readyExchanges
	statusQueue    *statusQueue
	backlog        *backlog
	reporter       *reporter
	tracer         *tracing.Tracer // nil where nothing is traced
	shards         []*shard

	phase atomic.Int32 // phaseNew and so on
	heard atomic.Int64 // when Redis has last answered, Unix ns

	worked      atomic.Bool // whether the inbox was ever consumed
	interrupted string      // why it is not, or empty; the intake's own

	taken takenIn
}

// New checks c. It does no I/O.
func New(c Config) (*Bridge, error) {
	var faults []error
	if c.Client == nil {
		faults = append(faults, errors.New("redisbridge: Config.Client is missing"))
	}
	if c.Topology == nil {
		faults = append(faults, errors.New("redisbridge: Config.Topology is missing"))
	}
	if c.ShowEvery < 0 && c.ShowEvery != ShowNever {
		faults = append(faults, errors.New("redisbridge: Config.ShowEvery must be ShowNever, or not negative"))
	}
	if c.Lease < 0 || c.MaxInFlight < 0 || c.DrainTimeout < 0 || c.RepairEvery < 0 || c.StartWithin < 0 || c.Window < 0 || c.Tombstones < 0 || c.BrokerClockWithin < 0 {
		faults = append(faults, errors.New("redisbridge: Config.Lease, MaxInFlight, DrainTimeout, RepairEvery, StartWithin, Window, Tombstones and BrokerClockWithin must not be negative"))
	}
	if c.Name == "" {
		c.Name, _ = os.Hostname()
	}
	if c.Lease == 0 {
		c.Lease = DefaultLease
	}
	if c.MaxInFlight == 0 {
		c.MaxInFlight = DefaultMaxInFlight
	}
	if c.DrainTimeout == 0 {
		c.DrainTimeout = DefaultDrainTimeout
	}
	if c.RepairEvery == 0 {
		c.RepairEvery = DefaultRepairEvery
	}
	if c.ShowEvery == 0 {
		c.ShowEvery = DefaultShowEvery
	}
	if c.Observe == nil {
		c.Observe = func(Step, string, message.Path) {}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	b := &Bridge{config: c, log: c.Logger, id: c.Name + "-" + rand.Text()[:8], made: time.Now()}
	b.conditions = newConditions(b.log, func() { b.reporter.happened(func() {}) })
	b.unanswered = broker.NewUnanswered()
	b.repairs, b.readyExchanges, b.backlog, b.statusQueue, b.reporter = newRepairs(b), newReadyExchanges(b), newBacklog(b.id), newStatusQueue(b), newReporter(b)
	var err error
	if b.conn, err = b.connection("promotes", "publishes what was parked in Redis into its lane, shortly before it is due", b.reporter.connected); err != nil {
		faults = append(faults, err)
	}
	// The same URL has the same fault.
	b.consume, _ = b.connection("takes in", "parks what comes into the inbox in Redis, and puts back what is missing in the topology", func() {
		b.reporter.connected()
		b.repairs.ask()
	})
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	b.park, _ = NewPark(ParkConfig{Client: c.Client, Topology: c.Topology, Window: c.Window, Tombstones: c.Tombstones, TracerProvider: c.TracerProvider})
	b.store = b.park.store
	b.tracer = tracing.New(c.TracerProvider, tracedAs)
	b.register = newRegister(b)
	for n := range c.Topology.Shards() {
		b.shards = append(b.shards, newShard(b, n))
	}
	return b, nil
}

func (b *Bridge) connection(purpose, about string, connected func()) (*broker.Conn, error) {
	properties := map[string]string{"bridge": b.id}
	if t := b.config.Topology; t != nil {
		properties["prefix"], properties["shards"] = t.Prefix(), strconv.Itoa(t.Shards())
	}
	return broker.New(broker.Config{
		URL: b.config.AMQPURL, Name: "delaybridge bridge " + b.config.Name + ": " + purpose, About: about, Properties: properties,
		StartWithin: b.config.StartWithin, Connected: connected, Logger: b.config.Logger,
	})
}

// ID identifies this bridge among those that share the work.
func (b *Bridge) ID() string { return b.id }

// Run promotes until ctx ends, then finishes what it has claimed, gives its
// shards up and returns nil. It returns an error where it cannot even begin, and only a
// person can help: ErrConfiguration, a missing permission, or an exchange or queue that
// does not exist and that it may not create. Once it has consumed the inbox it waits for
// what is missing or forbidden, says so in the log, and goes on when it can; it ends when
// Redis belongs to another installation.
func (b *Bridge) Run(ctx context.Context) error {
	b.phase.Store(phaseRunning)
	defer b.phase.Store(phaseEnded)
	defer context.AfterFunc(ctx, func() { b.phase.CompareAndSwap(phaseRunning, phaseDraining) })()
	defer b.conditions.close()
	if err := b.awaitRedis(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)

	// The connections outlive ctx, for the answers to what was published.
	connected, disconnect := context.WithCancel(context.WithoutCancel(ctx))
	defer disconnect()
	var connections errgroup.Group
	for _, conn := range []*broker.Conn{b.conn, b.consume} {
		connections.Go(func() error {
			err := conn.Run(connected)
			if err != nil {
				stop(err)
			}
			return err
		})
	}

	me, err := b.awaitOwner(ctx)
	if err != nil {
		disconnect()
		lost := connections.Wait()
		if ctx.Err() != nil || lost != nil {
			return lost
		}
		return err
	}

	workers, work := errgroup.WithContext(ctx)
	workers.Go(func() error { return b.register.run(work, me) })
	workers.Go(func() error { b.listen(work); return nil })
	workers.Go(func() error { return b.tellOthers(work) })
	workers.Go(func() error { return b.repairs.run(work) })
	workers.Go(func() error { return b.intake(work) })
	workers.Go(func() error { return b.statusQueue.run(work) })
	workers.Go(func() error { return b.watchConditions(work) })
	workers.Go(func() error { return b.watchAnswers(work) })
	for _, s := range b.shards {
		workers.Go(func() error { return s.run(work) })
	}
	// A call to the broker can wait for long for a queue without a leader. It
	// ends with the connection.
	stopWatch := context.AfterFunc(ctx, func() { time.AfterFunc(b.config.DrainTimeout, disconnect) })
	defer stopWatch()
	err = workers.Wait()
	disconnect()
	if lost := connections.Wait(); lost != nil {
		err = lost
	}
	return err
}

// ends reports whether err ends Run: nothing does once the bridge has worked.
func (b *Bridge) ends(err error) bool {
	return !b.worked.Load() && (errors.Is(err, ErrConfiguration) || broker.Permanent(err) && !errors.Is(err, broker.ErrMissing))
}

// awaitRedis returns once Redis answers and holds the topology's layout.
func (b *Bridge) awaitRedis(ctx context.Context) error {
	began := time.Now()
	for {
		err := b.store.CheckLayout(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrConfiguration):
			return err
		case b.config.StartWithin > 0 && time.Since(began) >= b.config.StartWithin:
			return fmt.Errorf("%w: waited %v", err, b.config.StartWithin)
		}
		b.log.Warn("Redis is not ready", "error", err, "retry_in", retryPause)
		pause(ctx, retryPause)
	}
}

const retryPause = 500 * time.Millisecond

// awaitTick waits for the next of this bridge's ticks, of which there is one in every.
func (b *Bridge) awaitTick(ctx context.Context, every time.Duration) {
	pause(ctx, every-time.Since(b.made)%every)
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
