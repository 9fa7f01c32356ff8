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
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/defaults"
	"github.com/delaybridge/delaybridge/internal/health"
	"github.com/delaybridge/delaybridge/internal/sleep"
	"github.com/delaybridge/delaybridge/internal/tracing"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge/internal/commands"
	"github.com/delaybridge/delaybridge/redisbridge/internal/installation"
	"github.com/delaybridge/delaybridge/redisbridge/internal/intake"
	"github.com/delaybridge/delaybridge/redisbridge/internal/members"
	"github.com/delaybridge/delaybridge/redisbridge/internal/promote"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store"
	"github.com/delaybridge/delaybridge/redisbridge/internal/upkeep"
	"github.com/delaybridge/delaybridge/topology"
)

// Bridge promotes parked messages. Make one with [New].
type Bridge struct {
	config Config
	log    *slog.Logger
	id     string
	made   time.Time

	conn    *broker.Conn
	consume *broker.Conn // apart, since the broker may block a publishing connection
	store   *store.Store
	park    *Park           // for the intake
	tracer  *tracing.Tracer // nil where nothing is traced

	promoter     *promote.Promoter
	intake       *intake.Intake
	commands     *commands.Commands
	register     *members.Register
	repairs      *upkeep.Repairs
	status       *upkeep.StatusQueue
	watch        *upkeep.Watch
	trim         *upkeep.Trim
	installation *installation.Keeper
	conditions   *health.Conditions
	unanswered   *broker.Unanswered // what the intake publishes
	stats        *bridgeStats
	hurry        chan struct{} // has the register looked at soon

	phase  atomic.Int32 // phaseNew and so on
	heard  atomic.Int64 // when Redis has last answered, Unix ns
	worked atomic.Bool  // whether the inbox was ever consumed
}

// New checks c. It does no I/O, but to read files that hold a URL or certificates.
func New(c Config) (*Bridge, error) {
	var faults []error
	if c.Client == nil {
		faults = append(faults, errors.New("redisbridge: Config.Client is missing"))
	}
	if c.Topology == nil {
		faults = append(faults, errors.New("redisbridge: Config.Topology is missing"))
	}
	if c.Lease < 0 || c.MaxInFlight < 0 || c.DrainTimeout < 0 || c.RepairEvery < 0 || c.StartWithin < 0 || c.Window < 0 || c.Tombstones < 0 || c.BrokerClockWithin < 0 ||
		c.KeepUnrouted < 0 || c.KeepQuarantine < 0 || c.RetainUnrouted < 0 || c.RetainQuarantine < 0 || c.WaitReplicas < 0 {
		faults = append(faults, errors.New("redisbridge: Config.Lease, MaxInFlight, DrainTimeout, RepairEvery, StartWithin, Window, Tombstones, BrokerClockWithin, KeepUnrouted, KeepQuarantine, RetainUnrouted, RetainQuarantine and WaitReplicas must not be negative"))
	}
	if c.Name == "" {
		c.Name, _ = os.Hostname()
	}
	if c.Lease == 0 {
		c.Lease = defaults.Lease
	}
	if c.MaxInFlight == 0 {
		c.MaxInFlight = defaults.MaxInFlight
	}
	if c.DrainTimeout == 0 {
		c.DrainTimeout = defaults.BridgeDrainTimeout
	}
	if c.RepairEvery == 0 {
		c.RepairEvery = defaultRepairEvery
	}
	if c.ShowEvery == 0 {
		c.ShowEvery = defaults.ShowEvery
	}
	if c.Observe == nil {
		c.Observe = func(Step, string, message.Path) {}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	b := &Bridge{config: c, log: c.Logger, id: c.Name + "-" + rand.Text()[:8], made: time.Now(), hurry: make(chan struct{}, 1), unanswered: broker.NewUnanswered()}
	b.stats = newBridgeStats(b)
	b.conditions = health.New(b.log, func() { b.stats.happened(func() {}) })
	if err := checkQuotas(c.Quotas); err != nil {
		faults = append(faults, err)
	}
	var err error
	if b.conn, err = b.connection("promotes", "publishes what was parked in Redis into its lane, shortly before it is due", b.stats.connected); err != nil {
		faults = append(faults, err)
	}
	// The same URL has the same fault.
	b.consume, _ = b.connection("takes in", "parks what comes into the inbox in Redis, and puts back what is missing in the topology", func() {
		b.stats.connected()
		b.repairs.Ask()
	})
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	b.park, _ = NewPark(ParkConfig{Client: c.Client, Topology: c.Topology, Window: c.Window, Tombstones: c.Tombstones, Quotas: c.Quotas, WaitReplicas: c.WaitReplicas, TracerProvider: c.TracerProvider})
	b.store = b.park.store
	b.tracer = tracing.New(c.TracerProvider, tracedAs)
	b.furnish()
	return b, nil
}

// furnish makes the parts, and says what each may ask of the others.
func (b *Bridge) furnish() {
	c, heard := b.config, func() { b.heard.Store(time.Now().UnixNano()) }
	b.register = members.New(members.Config{
		Store: b.store, Bridge: b.id, Report: func() string { return b.stats.write(time.Now()) }, News: b.stats.news, Hurry: b.hurry,
		Heard: heard, Lost: b.lost, Loss: b.sawLoss,
		Changed: func(alive []string) {
			b.log.Info("bridges alive", "bridges", alive)
			b.promoter.WakeAll()
			b.status.MembersChanged()
		},
	})
	b.repairs = upkeep.NewRepairs(upkeep.RepairConfig{
		Topology: b.topology, Conn: b.consume, Every: c.RepairEvery,
		First: func() bool { return b.register.Prefers(0) }, Worked: b.worked.Load, Logger: b.log,
	})
	b.status = upkeep.NewStatusQueue(upkeep.StatusConfig{
		Store: b.store, Topology: c.Topology, Conn: b.consume, Bridge: b.id, Every: c.ShowEvery, First: b.register.First, Logger: b.log,
	})
	b.watch = &upkeep.Watch{Client: c.Client, Topology: c.Topology, Management: c.Management, Conditions: b.conditions, Logger: b.log}
	b.trim = &upkeep.Trim{
		Conn: b.consume, Every: c.RepairEvery, First: b.register.First, Logger: b.log,
		Since: upkeep.Dates{Topology: c.Topology, BrokerClockWithin: c.BrokerClockWithin}.Since, Now: b.store.Now,
		Limits: map[string]upkeep.Limit{
			c.Topology.Unrouted():   {Keep: c.KeepUnrouted, Retain: c.RetainUnrouted},
			c.Topology.Quarantine(): {Keep: c.KeepQuarantine, Retain: c.RetainQuarantine},
		},
	}
	b.installation = installation.New(installation.Config{
		Store: b.store, Topology: c.Topology, Conn: b.conn, First: b.register.First, Conditions: b.conditions, Logger: b.log,
	})
	ready := upkeep.NewReadyExchanges(c.Topology, b.conn, b.repairs)
	b.intake = intake.New(intake.Config{
		Topology: c.Topology, Bridge: b.id, Publish: b.conn, Consume: b.consume, Park: b.parkEntry,
		DrainTimeout: c.DrainTimeout, RepairEvery: c.RepairEvery, BrokerClockWithin: c.BrokerClockWithin,
		Ready: ready, Repairs: b.repairs, Conditions: b.conditions, Unanswered: b.unanswered,
		Worked: func() { b.worked.Store(true) }, Ends: b.ends, TookWithoutID: b.stats.tookWithoutID, Logger: b.log,
	})
	b.commands = commands.New(commands.Config{
		Topology: c.Topology, Bridge: b.id, Publish: b.conn, Consume: b.consume, Do: b.carryOut, Record: b.recordCommand,
		DrainTimeout: c.DrainTimeout, RepairEvery: c.RepairEvery, Repairs: b.repairs, Logger: b.log,
	})
	b.promoter = promote.New(promote.Config{
		Store: b.store, Topology: c.Topology, Bridge: b.id, Conn: b.conn,
		Lease: c.Lease, DrainTimeout: c.DrainTimeout, RepairEvery: c.RepairEvery, MaxInFlight: c.MaxInFlight,
		Prefers: b.register.Prefers, Ready: ready, Repairs: b.repairs, Conditions: b.conditions, TakesIn: b.unanswered,
		Stats: b.stats, Ends: b.ends, Heard: heard, Lost: b.lost,
		Observe:        func(step promote.Step, id string, path message.Path) { c.Observe(Step(step), id, path) },
		ObserveConfirm: c.ObserveConfirm, Tracer: b.tracer, Logger: b.log,
	})
}

func (b *Bridge) connection(purpose, about string, connected func()) (*broker.Conn, error) {
	properties := map[string]string{"bridge": b.id}
	if t := b.config.Topology; t != nil {
		properties["prefix"], properties["shards"] = t.Prefix(), strconv.Itoa(t.Shards())
	}
	return broker.New(broker.Config{
		URL: b.config.AMQPURL, TLS: b.config.TLS, Name: "delaybridge bridge " + b.config.Name + ": " + purpose, About: about, Properties: properties,
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
	defer b.conditions.Close()
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
	workers.Go(func() error { return b.register.Run(work, me) })
	workers.Go(func() error { return b.repairs.Run(work) })
	workers.Go(func() error { return b.deliver(work) })
	for _, run := range []func(context.Context){
		func(ctx context.Context) { b.store.Listen(ctx, b.calls()) },
		func(ctx context.Context) { b.watch.Run(ctx, b.config.RepairEvery) },
		b.watchAnswers, b.watchLayout, b.showStatus, b.trim.Run,
	} {
		workers.Go(func() error { run(work); return nil })
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

// deliver parks and promotes while Redis is this installation's, until ctx ends.
func (b *Bridge) deliver(ctx context.Context) error {
	for ctx.Err() == nil {
		b.installation.Await(ctx)
		workers, work := errgroup.WithContext(ctx)
		work, stop := context.WithCancel(work)
		workers.Go(func() error { return b.intake.Run(work) })
		workers.Go(func() error { return b.promoter.Run(work) })
		for _, run := range []func(context.Context){b.commands.Run, b.sweepGroups} {
			workers.Go(func() error { run(work); return nil })
		}
		workers.Go(func() error {
			defer stop()
			b.installation.Watch(work)
			return nil
		})
		err := workers.Wait()
		stop()
		if err != nil {
			return err
		}
	}
	return nil
}

// sweepGroups has one of the bridges forget, every RepairEvery, which messages that are gone were in a
// group.
func (b *Bridge) sweepGroups(ctx context.Context) {
	for {
		sleep.For(ctx, b.config.RepairEvery)
		if ctx.Err() != nil {
			return
		}
		if !b.register.First() {
			continue
		}
		if err := b.store.SweepGroups(ctx); err != nil && ctx.Err() == nil {
			b.log.Debug("groups could not be swept; it is tried again", "error", err)
		}
	}
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
		sleep.For(ctx, retryPause)
	}
}

const retryPause = 500 * time.Millisecond

// lost notes down in Redis, for all who look, that what this bridge had there is gone, and
// puts the layout back. The first of several notes stays.
func (b *Bridge) lost(ctx context.Context, what string) {
	l := Loss{At: time.Now().UTC().Truncate(time.Millisecond), Bridge: b.id, What: what}
	b.conditions.Begin(health.RedisLost, l.String())
	b.installation.Ask()
	text, err := json.Marshal(l)
	if err != nil {
		return
	}
	if err := b.store.NoteLoss(ctx, string(text)); err != nil {
		b.log.Warn("cannot note down in Redis what it has lost", "error", err)
	}
}

// sawLoss takes what Redis says of losses: another bridge may have seen one.
func (b *Bridge) sawLoss(text string) {
	if text == "" {
		b.conditions.End(health.RedisLost)
		return
	}
	b.conditions.Begin(health.RedisLost, lossOf(text).String())
}

// awaitOwner returns once the broker has said who it is, and the layout is its own.
func (b *Bridge) awaitOwner(ctx context.Context) (store.Owner, error) {
	cluster, vhost, err := b.conn.Server(ctx)
	if err != nil {
		return store.Owner{}, err // of the connection, which says so itself
	}
	me := store.Owner{Cluster: cluster, VHost: vhost}
	for {
		adopted, err := b.store.Own(ctx, me, b.config.Adopt)
		if adopted != nil {
			b.log.Warn("the messages of another installation are adopted", "from", adopted.String(), "by", me.String())
		}
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrConfiguration) {
			return me, err
		}
		b.log.Warn("Redis is not ready", "error", err, "retry_in", retryPause)
		sleep.For(ctx, retryPause)
	}
}

// calls are what other bridges and publishers tell this one.
func (b *Bridge) calls() store.Calls {
	return store.Calls{
		Subscribed: func() {
			b.promoter.WakeAll()
			signal(b.hurry)
		},
		Members: func() { signal(b.hurry) },
		Layout:  func() { b.readLayout() },
		Shard: func(shard string) {
			b.status.Stirred()
			b.promoter.Wake(shard)
		},
		Told: b.promoter.Hear,
	}
}

// readLayout looks whether there is another number of shards. What fails is tried again with the register.
func (b *Bridge) readLayout() {
	ctx, cancel := context.WithTimeout(context.Background(), checkWait)
	defer cancel()
	_, _ = b.store.ReadLayout(ctx)
}

// topology is that of the configuration, with the lanes of the shards that there are.
func (b *Bridge) topology() *topology.Topology {
	return topologyFor(b.config.Topology, b.store.Layout())
}

// watchLayout says when the number of shards changes, and puts the lanes of new shards in place.
func (b *Bridge) watchLayout(ctx context.Context) {
	for ctx.Err() == nil {
		_, changed := b.store.Shards()
		l := b.store.Layout()
		switch {
		case l.Next > 0:
			b.log.Info("the number of shards is being changed", "from", l.Shards, "to", l.Next)
			b.repairs.Ask()
		case l.Generation > 0 && l.Shards != b.config.Topology.Shards():
			b.log.Warn("the number of shards was changed, and the configuration has another one: set it, so that commands without Redis go by it, too",
				"shards", l.Shards, "configured", b.config.Topology.Shards())
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
}

func (b *Bridge) showStatus(ctx context.Context) {
	if b.config.ShowEvery > 0 {
		b.status.Run(ctx)
	}
}
