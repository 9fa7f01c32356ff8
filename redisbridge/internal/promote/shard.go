package promote

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/sleep"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store/server"
)

const (
	// maxSleep bounds how long a shard sleeps without looking, in case that a
	// call to wake was lost in a way that the subscription did not notice.
	maxSleep = 2 * time.Minute
	// standbyGrace is how long a shard may be late before a bridge takes it that
	// is not meant to own it.
	standbyGrace = time.Second
	// tick gathers messages into fewer claims and settles: what is promoted so
	// much later has only less time left in its lane. All shards of a bridge
	// speak to Redis on the same tick, which so flushes once to disk for all of
	// them: a disk that it shares with the broker, which flushes there, too.
	tick = 20 * time.Millisecond
	// claimTick is that of claims: what is claimed at once arrives in the lanes at once,
	// and the last of it is late by what the broker takes for the others.
	claimTick = tick / 2
	// window bounds the messages of a shard that wait for the broker's confirm. A
	// lane's TTL runs from when the message is in the queue: what waits in front
	// of it is late by that wait. And shards that work off a backlog side by side
	// stay so only if few of each are in flight to the broker.
	window = 64
	// readyChannels is how many channels a shard, and the intake, may have for what goes
	// straight to the ready exchange: as many queues that answer nothing hold up no others.
	readyChannels = 16
	// claimMost is how many messages are claimed at once.
	claimMost = 256
	// refusedPause is how long a message waits that a queue has refused, and brokenPause,
	// at most, one over which the broker has closed the channel; health.UnfitPause, where
	// it objects to the message itself.
	refusedPause = time.Second
	brokenPause  = time.Minute
	// retryPause is between two tries.
	retryPause = 500 * time.Millisecond
)

// shard promotes the messages of one shard while this bridge owns it. One
// goroutine claims and publishes into the lanes, so that the order of publishing is the order
// of promotion; another one settles.
type shard struct {
	p        *Promoter
	of       *store.Shard
	n        int    // its number, which is that of its lanes
	name     string // which tells it from all others
	end      func() // ends run
	ended    <-chan struct{}
	lanes    map[string]*broker.Publisher // by exchange; each in due order
	ready    *broker.Pool                 // for what goes straight to the ready exchange
	leads    []time.Duration
	inflight *inflight
	woken    chan struct{}

	headers amqp.Table // of the message that is being published

	unanswered *broker.Unanswered // the same, by target

	entering atomic.Int64  // messages on their way into a queue
	entered  chan struct{} // one of them is there, or will never be

	clock *server.Clock
	read  time.Time // when clock was last read for its own sake

	turn    int64         // see store.Claim
	highest int64         // turn that was answered: it never falls while Redis keeps its data
	ahead   chan answered // the claim that is under way, or nil
	catchUp catchUp
	single  int                  // how many messages are still to be published one at a time
	absent  map[string]time.Time // exchanges that the broker did not find, until when not to try them
	last    store.Claimed

	poison *poisonBackoff

	mine   atomic.Bool // whether this bridge moves what the shard has to other shards
	health shardHealth
}

func newShard(p *Promoter, of *store.Shard) *shard {
	c := &p.config
	ended := make(chan struct{})
	return &shard{
		p: p, of: of, n: of.Number(), name: of.Name(), end: sync.OnceFunc(func() { close(ended) }), ended: ended, lanes: map[string]*broker.Publisher{},
		ready: broker.NewPool(c.Conn, readyChannels), absent: map[string]time.Time{}, leads: c.Topology.Leads(), inflight: newInflight(), headers: amqp.Table{}, woken: make(chan struct{}, 1),
		entered: make(chan struct{}, 1), clock: c.Store.Clock(of), poison: newPoisonBackoff(), unanswered: broker.NewUnanswered(),
	}
}

// run promotes until ctx ends, or there is no such shard any more, and then gives the shard up.
func (s *shard) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-ctx.Done():
		case <-s.ended:
			cancel()
		}
	}()
	moved := make(chan struct{})
	go func() {
		defer close(moved)
		s.moveAll(ctx)
	}()
	defer func() { <-moved }()
	defer cancel()
	settling, stop := context.WithCancel(context.WithoutCancel(ctx))
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		s.settleAll(settling)
	}()
	err := s.promoteAll(ctx)
	s.discardAhead()

	// What is in flight is finished, but not for ever.
	drain, drained := context.WithTimeout(context.WithoutCancel(ctx), s.p.config.DrainTimeout)
	defer drained()
	if s.inflight.drain(drain) == nil {
		_ = s.yield(drain) // otherwise the lease ends by itself
	}
	stop()
	<-settled
	s.closeChannels()
	return err
}

// closeChannels gives back what a shard has of the connection, unless that is about to end with all others.
func (s *shard) closeChannels() {
	select {
	case <-s.ended:
	default:
		return
	}
	for _, lane := range s.lanes {
		lane.Close()
	}
	s.ready.Close()
}

func (s *shard) promoteAll(ctx context.Context) error {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 20*time.Millisecond, 2*time.Second
	healthy := true
	for ctx.Err() == nil {
		idle, err := s.step(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			s.health.end(nil)
			if !healthy {
				s.p.config.Logger.Info("shard works again", "shard", s.name)
			}
			healthy = true
			wait.Reset()
			s.sleep(ctx, idle)
		case s.p.config.Ends(err):
			return err
		default:
			s.health.end(err)
			if healthy {
				s.p.config.Logger.Warn("shard cannot be worked on for now", "shard", s.name, "error", err)
			}
			healthy = false
			sleep.For(ctx, wait.NextBackOff())
		}
	}
	return nil
}

// step publishes what one claim got. It returns how long there is nothing to do,
// or an error after which to try again, or that ends the bridge.
func (s *shard) step(ctx context.Context) (time.Duration, error) {
	if err := s.inflight.fault(); err != nil {
		return 0, s.recover(ctx, err)
	}
	if err := s.p.config.Conn.Ready(ctx); err != nil {
		return 0, err
	}
	c, err := s.nextClaim(ctx)
	if err != nil {
		return 0, err
	}
	s.reports(&c)
	s.mine.Store(c.Status == store.AnswerOwned || c.Status == store.AnswerMoved && s.p.config.Prefers(s.n))
	if c.Status == store.AnswerMoved { // nothing is left to own
		s.health.own(s.p.config.Prefers(s.n), false)
		s.p.backlog.done(s.name)
		return movedPause, nil
	}
	s.health.own(c.Status == store.AnswerOwned, c.Expired)
	if c.Status != store.AnswerOwned {
		s.p.backlog.done(s.name)
		return s.standBy(&c), nil
	}
	if c.Turn <= s.highest {
		s.p.config.Lost(ctx, fmt.Sprintf("the turn of shard %s (%d after %d)", s.name, c.Turn, s.highest))
	}
	s.turn, s.highest, s.last = c.Turn, c.Turn, c
	s.catchUp.held = c.Held
	full := len(c.Messages) > 0 && len(c.Messages) == c.Room
	if full && !c.Asked && s.single == 0 {
		s.claimAhead(ctx)
	}
	if len(c.Messages) == 0 {
		s.p.backlog.done(s.name)
	}
	for _, m := range c.Messages {
		s.p.config.Observe(Claimed, m.ID, "")
	}
	for i, m := range c.Messages {
		if err := s.promote(ctx, m); err != nil {
			s.giveBack(c.Messages[i:], err)
			break
		}
	}
	s.single = max(0, s.single-len(c.Messages))

	switch {
	case c.Asked && !s.p.config.Prefers(s.n):
		return 0, s.handOver(ctx)
	case len(c.Messages) == 0 && s.inflight.count() == 0 && c.InFlight > 0:
		s.turn = -1 // claimed by no live bridge: have them returned
		return 0, nil
	case c.Room == 0:
		s.inflight.landed(ctx, s.p.config.Lease/2)
		return 0, nil
	case full:
		return 0, nil // there may be more
	}
	if err := s.readClock(ctx); err != nil {
		return 0, err
	}
	idle := maxSleep
	if c.Next >= 0 {
		idle = time.Duration(c.Next-s.now()) * time.Millisecond
	}
	if s.inflight.count() > 0 {
		idle = min(idle, s.p.config.Lease/2)
	}
	began := time.Now()
	s.p.awaitTick(ctx, claimTick)
	return idle - time.Since(began), nil
}

// standBy says how long a shard of another bridge needs no look.
func (s *shard) standBy(c *store.Claimed) time.Duration {
	s.turn = 0
	if c.Next < 0 {
		return maxSleep
	}
	until := time.Duration(c.Next-c.Now) * time.Millisecond
	if c.Status == store.AnswerIdle {
		until += standbyGrace
	}
	return until + time.Millisecond
}

// handOver gives the shard to the bridge that asks for it, once nothing is in
// hand any more, so that its lanes never have two writers.
func (s *shard) handOver(ctx context.Context) error {
	patience, cancel := context.WithTimeout(ctx, s.p.config.Lease)
	defer cancel()
	if err := s.settled(patience); err != nil {
		return nil // renew the lease, and try again
	}
	s.p.config.Logger.Info("handing a shard over", "shard", s.name)
	s.health.own(false, false)
	return s.yield(ctx)
}

// settled waits until nothing is in flight any more but what waits for silent targets.
func (s *shard) settled(ctx context.Context) error {
	for s.moving() > 0 {
		s.inflight.landed(ctx, retryPause)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

func (s *shard) sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	if s.p.config.Store.Moves(s.of) { // whose owner may die at it
		d = min(d, movedPause)
	}
	timer := time.NewTimer(min(d, maxSleep))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-s.woken:
	}
}

// recover lets what is in flight end after a fault, so that what comes back
// into the schedule is published in order again. It returns the fault.
func (s *shard) recover(ctx context.Context, fault error) error {
	s.discardAhead()
	if err := s.settled(ctx); err != nil {
		return err
	}
	s.inflight.forgive()
	s.p.config.Repairs.Consider(fault)
	if exchange, ok := broker.MissingExchange(fault); ok {
		// Only what goes there has to wait. The rest is published again at once.
		s.absent[exchange] = time.Now().Add(refusedPause)
		s.p.config.Ready.Forget(fault)
	}
	if broker.Objected(fault) && s.single == 0 {
		s.single = claimMost // to find the message to which the broker objects
	}
	return fault
}

// yield gives the shard up.
func (s *shard) yield(ctx context.Context) error {
	s.p.config.Stats.Owns(s.of, false)
	return s.p.config.Store.Yield(ctx, s.of, s.p.config.Bridge)
}

// exchangePause is how long a message waits for its entry's ready exchange: shortly where
// it is about to be put back, and otherwise until the entry is configured.
func (s *shard) exchangePause(entry string) time.Duration {
	if s.p.config.Topology.HasEntry(entry) {
		return refusedPause
	}
	return s.p.config.RepairEvery
}

// noting has complete note down how late a message is that goes straight to the ready exchange.
func (s *shard) noting(m *store.Parked, complete func(error)) func(error) {
	return func(err error) {
		if least, _, known := s.clock.Bounds(time.Now()); known && err == nil {
			s.p.config.Stats.Ready(least - m.Due())
		}
		complete(err)
	}
}
