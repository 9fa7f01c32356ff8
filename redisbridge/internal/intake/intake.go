// Package intake moves messages from the inbox into Redis.
package intake

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/health"
	"github.com/delaybridge/delaybridge/internal/sleep"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store/server"
	"github.com/delaybridge/delaybridge/redisbridge/internal/upkeep"
	"github.com/delaybridge/delaybridge/topology"
)

const (
	// intakePrefetch is how many messages of the inbox are unacknowledged at a time, so
	// that they share round trips to Redis.
	intakePrefetch = 1024
	// intakeSteady is how long an intake lasts that did not end over the messages
	// it began with.
	intakeSteady = 10 * time.Second
)

const (
	// retryPause is between two tries.
	retryPause = 500 * time.Millisecond
	// waitPause is how long a message that is due waits for its exchange, or for a target
	// that is silent.
	waitPause = time.Second
	// readyChannels is how many channels there may be for what goes straight to the ready
	// exchange: as many queues that answer nothing hold up no others.
	readyChannels = 16
)

// Config of an [Intake]. What its settings mean is said at redisbridge.Config.
type Config struct {
	Topology *topology.Topology
	Bridge   string // its ID
	// Publish is the connection to publish over, and Consume that to consume over.
	Publish, Consume *broker.Conn
	// Park parks a message of the inbox.
	Park func(context.Context, *message.Message, message.When, store.Beginning) (message.Ticket, error)

	DrainTimeout, RepairEvery, BrokerClockWithin time.Duration

	Ready      *upkeep.ReadyExchanges
	Repairs    *upkeep.Repairs
	Conditions *health.Conditions
	Unanswered *broker.Unanswered
	// Worked is told when the inbox is consumed, and Ends says whether an error ends the
	// bridge.
	Worked func()
	Ends   func(error) bool
	// TookWithoutID is called for each message that came without a message-id.
	TookWithoutID func()
	Logger        *slog.Logger
}

// Intake moves messages from the inbox into Redis.
type Intake struct {
	config      Config
	interrupted string // why the inbox is not consumed, or empty
	counted     counts
	refused     refusals
}

// New does no I/O.
func New(c Config) *Intake { return &Intake{config: c} }

// Counts is how many messages were taken in, by what became of them.
type Counts struct{ Parked, Duplicates, Published, Dropped, Quarantined int64 }

type counts struct{ parked, duplicates, published, dropped, quarantined atomic.Int64 }

// Counts returns them, since the start.
func (i *Intake) Counts() Counts {
	c := &i.counted
	return Counts{c.parked.Load(), c.duplicates.Load(), c.published.Load(), c.dropped.Load(), c.quarantined.Load()}
}

// refusals counts the messages that were over their entry's quota, by entry.
type refusals struct {
	mu  sync.Mutex
	all map[string]int64
}

func (r *refusals) add(entry string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[string]int64{}
	}
	r.all[entry]++
}

// Refused returns how many messages were over their entry's quota since the start, by entry.
func (i *Intake) Refused() map[string]int64 {
	i.refused.mu.Lock()
	defer i.refused.mu.Unlock()
	return maps.Clone(i.refused.all)
}

// counted adds one where err is nil, and returns err.
func counted(n *atomic.Int64, err error) error {
	if err == nil {
		n.Add(1)
	}
	return err
}

// Run moves messages from the inbox into Redis, until ctx ends. A message is
// acknowledged only once Redis, or another queue, has it. What the broker has handed out
// by then is finished, for DrainTimeout at most: a message without an ID that is parked and
// goes back to the inbox all the same comes twice.
//
// After an intake that was cut short the next one is on probation. Each time is one more delivery for all
// that are unacknowledged, which at the inbox's delivery limit go to quarantine. On probation an intake
// takes one message at a time: in a network that fails again and again, and beside a message
// that ends the connection, only that one has a delivery more.
func (i *Intake) Run(ctx context.Context) error {
	work, end := i.drainContext(ctx)
	defer end()
	ready := broker.NewPool(i.config.Publish, readyChannels)
	probation := false
	for ctx.Err() == nil {
		began := time.Now()
		err := i.takeIn(ctx, work, ready, probation)
		probation = err != nil && time.Since(began) < intakeSteady
		if err == nil {
			continue
		}
		err = fmt.Errorf("intake from %s: %w", i.config.Topology.Inbox(), err)
		switch {
		case ctx.Err() != nil:
			return nil
		case i.config.Ends(err):
			return err
		}
		i.config.Repairs.Consider(err)
		if text := err.Error(); text != i.interrupted { // an outage of hours is one line
			i.interrupted = text
			i.config.Logger.Warn("intake interrupted; it is tried again until it works", "error", err, "probation", probation)
		}
		sleep.For(ctx, retryPause)
	}
	return nil
}

// madeUpID makes up an ID for a message that has none, and says in it whether the broker
// has delivered the message before. Nothing that a broker tells of a message is the same at
// each delivery and different for each message: so neither is the ID.
func madeUpID(redelivered bool) string {
	if redelivered {
		return wire.MadeUpAgainPrefix + rand.Text()
	}
	return wire.MadeUpPrefix + rand.Text()
}

// drainContext returns a context that ends DrainTimeout after ctx.
func (i *Intake) drainContext(ctx context.Context) (context.Context, context.CancelFunc) {
	drain, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(i.config.DrainTimeout, cancel)
		context.AfterFunc(drain, func() { timer.Stop() })
	})
	return drain, func() { stop(); cancel() }
}

// takeIn consumes over one channel until it ends, and then waits for what is in
// hand. It returns nil where the probation is over, and with ctx: then
// it consumes no more, and finishes within work what it was given.
func (i *Intake) takeIn(ctx, work context.Context, ready *broker.Pool, probation bool) error {
	ch, err := i.config.Consume.Channel(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if ctx.Err() == nil { // otherwise the connection is closed next, which cannot get stuck
			_ = ch.Close()
		}
	}()
	prefetch := intakePrefetch
	var calm <-chan time.Time
	if probation {
		prefetch, calm = 1, time.After(intakeSteady)
	}
	if err := ch.Qos(prefetch, 0, false); err != nil {
		return broker.Classify(err)
	}
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	tag := wire.IntakeTag(i.config.Bridge)
	deliveries, err := ch.Consume(i.config.Topology.Inbox(), tag, false, false, false, false, nil)
	if err != nil {
		return broker.Classify(err)
	}
	i.config.Worked()
	if i.interrupted != "" {
		i.interrupted = ""
		i.config.Logger.Info("intake works again")
	}
	watched, done := context.WithCancel(ctx)
	defer done()
	q := &questions{ch: ch, inbox: i.config.Topology.Inbox()}
	go i.watchConsumer(watched, q) // ends with the channel
	acks := newAcks(ch, (prefetch+7)/8)
	defer acks.flush()
	var hands sync.WaitGroup
	defer hands.Wait()
	work, drop := context.WithCancel(work)
	defer drop()
	take := func(d *amqp.Delivery) { i.takeInOne(ctx, work, ready, acks, d) }
	defer context.AfterFunc(ctx, func() { q.cancel(tag) })() // which ends the deliveries
	for harmless := 0; !probation || harmless < intakePrefetch; harmless++ {
		select {
		case <-calm:
			hands.Wait()
			return nil
		case d, ok := <-deliveries:
			if ok {
				hands.Go(func() { take(&d) })
				continue
			}
			select {
			case reason := <-closed: // the broker gives what is unacknowledged to another
				if reason != nil {
					return broker.Classify(reason)
				}
				return upkeep.ErrConsumerCancelled
			default:
			}
			hands.Wait()
			if ctx.Err() == nil {
				return upkeep.ErrConsumerCancelled
			}
			q.settle(acks, take)
			return nil
		}
	}
	hands.Wait()
	return nil
}

// watchConsumer ends a channel whose consumer the inbox does not know: RabbitMQ
// 3.10, with a node down, does not tell a consumer that its queue was deleted.
func (i *Intake) watchConsumer(ctx context.Context, q *questions) {
	ticker := time.NewTicker(i.config.RepairEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		consumers, err := q.consumers()
		if err != nil { // which has ended the channel
			return
		}
		if consumers == 0 {
			_ = q.ch.Close()
			return
		}
	}
}

// questions are those that an intake asks over its channel, one at a time: the library
// takes the first answer for that to whichever question.
type questions struct {
	mu    sync.Mutex
	ch    *amqp.Channel
	inbox string
}

// consumers returns how many the inbox has.
func (q *questions) consumers() (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	inbox, err := q.ch.QueueDeclarePassive(q.inbox, true, false, false, false, nil)
	return inbox.Consumers, err
}

// cancel has the inbox deliver no more.
func (q *questions) cancel(tag string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	_ = q.ch.Cancel(tag, false) // or the channel is gone, with all that it was to deliver
}

// settle returns when the inbox has the acknowledgements of all that was taken in, or the
// channel is gone. AMQP confirms none. While a quorum queue is slow to answer for some, the
// broker keeps those that follow, and forgets them when their channel is closed. To get a
// message goes the same way, and has an answer, after which the broker's side of the
// channel has heard of all before; any other answer shows that it has sent on the rest.
func (q *questions) settle(acks *acks, take func(*amqp.Delivery)) {
	acks.flush()
	d, found, err := q.get()
	if err != nil {
		return
	}
	if found {
		take(&d)
		acks.flush()
	}
	_, _ = q.consumers()
}

func (q *questions) get() (d amqp.Delivery, found bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ch.Get(q.inbox, false)
}

// takeInOne tries until the message is somewhere else, or work ends. Once ctx has ended it
// leaves a message that is nowhere else in the inbox.
func (i *Intake) takeInOne(ctx, work context.Context, ready *broker.Pool, acks *acks, d *amqp.Delivery) {
	e := entry{Delivery: d, id: d.MessageId}
	if e.id == "" {
		e.id = madeUpID(d.Redelivered)
	}
	if reason := broker.Undecodable(d); reason != "" {
		i.setAside(acks, &e, fmt.Errorf("its headers cannot be decoded: %s", reason))
		return
	}
	for unsure := false; ; {
		err := i.place(work, ready, &e)
		switch {
		case err == nil:
			acks.add(d.DeliveryTag)
			if d.MessageId == "" {
				i.config.TookWithoutID()
			}
			return
		case errors.Is(err, errTooLarge), errors.Is(err, broker.ErrSilent):
			i.setAside(acks, &e, err)
			return
		}
		unsure = unsure || errors.Is(err, server.ErrUnconfirmed)
		i.config.Repairs.Consider(err)
		if ctx.Err() != nil && !unsure || work.Err() != nil {
			return
		}
		i.stays(e.id, err)
		sleep.For(work, retryPause)
	}
}

// setAside sends a message to quarantine as it is.
func (i *Intake) setAside(acks *acks, e *entry, reason error) {
	i.config.Logger.Error("message goes to quarantine as it is", "id", e.id, "error", reason)
	acks.reject(e.DeliveryTag) // the inbox dead-letters there
	i.counted.quarantined.Add(1)
}

// stays notes down that a message stays in the inbox for now. Thousands may.
func (i *Intake) stays(id string, err error) {
	is := health.IntakeStuck
	if errors.Is(err, server.ErrFull) {
		is = health.RedisFull
	}
	i.config.Conditions.Begin(is, err.Error(), "id", id)
}
