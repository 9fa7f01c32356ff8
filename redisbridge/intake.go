package redisbridge

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/message"
)

const (
	// intakePrefetch is how many messages of the inbox are in hand at a time, so
	// that they share round trips to Redis.
	intakePrefetch = 1024
	// intakeSteady is how long an intake lasts that did not end over the messages
	// it began with.
	intakeSteady = 10 * time.Second
)

var (
	errCancelled = errors.New("the broker has cancelled the consumer")
	// errTooLarge means that no broker takes a message from us, as it is.
	errTooLarge = errors.New("headers too large")
	// errGivenBack means that the broker gives a message to whoever comes next, who
	// perhaps has parked it already.
	errGivenBack = errors.New("back in the inbox")
)

// intake moves messages from the inbox into Redis, until ctx ends. A message is
// acknowledged only once Redis, or another queue, has it.
//
// An intake that was cut short makes the next one wary. Perhaps there is a message
// that cannot be decoded: that ends the connection, and so is one more delivery for
// all that are in hand, which at the inbox's delivery limit go to quarantine. A wary
// intake takes one message at a time, and so counts only the one that is to blame.
func (b *Bridge) intake(ctx context.Context) error {
	ready := broker.NewPublisher(b.conn)
	wary := false
	for ctx.Err() == nil {
		began := time.Now()
		err := b.takeIn(ctx, ready, wary)
		wary = err != nil && time.Since(began) < intakeSteady
		if err == nil {
			continue
		}
		err = fmt.Errorf("intake from %s: %w", b.config.Topology.Inbox(), err)
		switch {
		case ctx.Err() != nil:
			return nil
		case broker.Permanent(err) && !errors.Is(err, broker.ErrMissing):
			return err
		}
		b.repairs.consider(err)
		b.log.Warn("intake interrupted", "error", err, "wary", wary)
		pause(ctx, retryPause)
	}
	return nil
}

// intakeTag follows a bridge's ID in the tag of its consumer of the inbox.
const intakeTag = ": parks these in Redis"

// BridgeOf returns the ID of the bridge to which a consumer of the inbox belongs, by its
// consumer tag, and false where it is no bridge's.
func BridgeOf(consumerTag string) (id string, ok bool) {
	return strings.CutSuffix(consumerTag, intakeTag)
}

// takeIn consumes over one channel until it ends, and then waits for what is in
// hand. It returns nil with ctx, and where there is no reason to be wary any more.
func (b *Bridge) takeIn(ctx context.Context, ready *broker.Publisher, wary bool) error {
	ch, err := b.consume.Channel(ctx)
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
	if wary {
		prefetch, calm = 1, time.After(intakeSteady)
	}
	if err := ch.Qos(prefetch, 0, false); err != nil {
		return broker.Classify(err)
	}
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	deliveries, err := ch.Consume(b.config.Topology.Inbox(), b.id+intakeTag, false, false, false, false, nil)
	if err != nil {
		return broker.Classify(err)
	}
	watched, done := context.WithCancel(ctx)
	defer done()
	q := &questions{ch: ch, inbox: b.config.Topology.Inbox(), prefetch: prefetch}
	go b.watchConsumer(watched, q) // ends with the channel
	acks := newAcks(ch, (prefetch+7)/8)
	defer acks.flush()
	var hands sync.WaitGroup
	defer hands.Wait()
	for harmless := 0; !wary || harmless < intakePrefetch; harmless++ {
		select {
		case <-ctx.Done():
			return nil // what is not acknowledged goes back to the inbox
		case <-calm:
			return nil
		case d, ok := <-deliveries:
			if !ok {
				select {
				case reason := <-closed:
					if reason != nil {
						return broker.Classify(reason)
					}
				default:
				}
				return errCancelled
			}
			hands.Go(func() { b.takeInOne(ctx, ready, acks, q, &d) })
		}
	}
	return nil
}

// watchConsumer ends a channel whose consumer the inbox does not know: RabbitMQ
// 3.10, with a node down, does not tell a consumer that its queue was deleted.
func (b *Bridge) watchConsumer(ctx context.Context, q *questions) {
	ticker := time.NewTicker(b.config.RepairEvery)
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
	mu       sync.Mutex
	ch       *amqp.Channel
	inbox    string
	prefetch int
}

// consumers returns how many the inbox has.
func (q *questions) consumers() (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	inbox, err := q.ch.QueueDeclarePassive(q.inbox, true, false, false, false, nil)
	return inbox.Consumers, err
}

// held reports whether nobody else was given, until now, what the channel has delivered.
// The broker gives it to others once it has lost the channel, of which we may learn later:
// so it is asked for something that changes nothing.
func (q *questions) held() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ch.Qos(q.prefetch, 0, false) == nil
}

// takeInOne tries until the message is somewhere else, or ctx ends.
func (b *Bridge) takeInOne(ctx context.Context, ready *broker.Publisher, acks *acks, q *questions, d *amqp.Delivery) {
	e := entry{Delivery: d, key: d.MessageId, again: d.Redelivered, held: q.held}
	if e.key == "" {
		e.key = rand.Text()
	}
	for ctx.Err() == nil {
		err := b.place(ctx, ready, &e)
		switch {
		case err == nil:
			acks.add(d.DeliveryTag)
			return
		case errors.Is(err, errGivenBack):
			return
		case errors.Is(err, errTooLarge):
			b.log.Error("message goes to quarantine as it is", "id", e.key, "error", err)
			acks.reject(d.DeliveryTag) // the inbox dead-letters there
			b.taken.quarantined.Add(1)
			return
		}
		e.again = e.again || errors.Is(err, ErrUnconfirmed)
		b.repairs.consider(err)
		if ctx.Err() == nil {
			b.stays(e.key, err)
			pause(ctx, retryPause)
		}
	}
}

// stays notes down that a message stays in the inbox for now. Thousands may.
func (b *Bridge) stays(id string, err error) {
	is := ConditionIntakeStuck
	if errors.Is(err, ErrFull) {
		is = ConditionRedisFull
	}
	b.conditions.begin(is, err.Error(), "id", id)
}

// entry is a message of the inbox.
type entry struct {
	*amqp.Delivery
	key   string      // under which it is parked
	again bool        // it may have been parked before, by this bridge or another
	held  func() bool // whether nobody else was given it
}

// place brings an entry to where it belongs, and returns nil once it is there.
func (b *Bridge) place(ctx context.Context, ready *broker.Publisher, e *entry) error {
	m := message.FromDelivery(e.Delivery)
	m.Entry = b.config.Topology.EntryOf(e.Exchange) // whatever the headers say
	if m.ID == "" {
		m.ID = e.key
	}
	if n := message.HeaderBytes(m.Headers); n > message.MaxHeaderBytes {
		return fmt.Errorf("%w: %d bytes, more than %d", errTooLarge, n, message.MaxHeaderBytes)
	}
	when, err := message.WhenFromHeaders(e.Headers, time.Now())
	if err != nil {
		publishing := m.Publishing(message.Journey{Path: message.PathQuarantine})
		publishing.Headers[message.HeaderError] = err.Error()
		err = b.publish(ctx, ready, broker.Outgoing{
			Exchange: b.config.Topology.Quarantine(), RoutingKey: m.RoutingKey, Mandatory: true, Publishing: publishing,
		})
		return counted(&b.taken.quarantined, err)
	}
	return b.deliver(ctx, ready, e, &m, when)
}

// deliver parks a message, or publishes it where it is due.
func (b *Bridge) deliver(ctx context.Context, ready *broker.Publisher, e *entry, m *message.Message, when message.When) error {
	if when != (message.When{}) {
		ticket, err := b.parkEntry(ctx, e.key, m, when)
		switch {
		case err != nil:
			return err
		case ticket.Parking == message.CancelledBefore:
			b.log.Info("message is dropped: its ID is cancelled", "id", e.key)
			return counted(&b.taken.dropped, nil)
		case ticket.Parking == message.Parked:
			return counted(&b.taken.parked, nil)
		case ticket.Parking == message.ParkedBefore:
			another, err := b.isAnother(ctx, e, m)
			switch {
			case err != nil:
				return err
			case !another:
				return counted(&b.taken.duplicates, nil)
			case !e.held():
				return errGivenBack
			}
			e.key = e.MessageId[:min(len(e.MessageId), message.MaxIDBytes/2)] + "~" + rand.Text()
			return b.deliver(ctx, ready, e, m, when)
		}
	}
	there, err := b.readies.look(ctx, m.Entry)
	switch {
	case err != nil:
		return err
	case !there: // let it wait in Redis, rather than in the way of others
		return b.deliver(ctx, ready, e, m, message.After(refusedPause))
	}
	// When it was published is not known: a change since then must not be taken for one
	// of an earlier message with the same ID.
	err = b.publish(ctx, ready, broker.Outgoing{
		Exchange: b.config.Topology.ReadyExchangeOf(m.Entry), RoutingKey: m.RoutingKey, Mandatory: true,
		Publishing: m.Publishing(message.Journey{Due: time.Now(), Path: message.PathDirect}),
	})
	b.readies.forget(err)
	return counted(&b.taken.published, err)
}

// isAnother reports whether an entry is another message than the one that was parked
// before under its key: a foreign client need not give each message an ID of its own. One
// that may be that message is taken for it, unless it says something else.
func (b *Bridge) isAnother(ctx context.Context, e *entry, m *message.Message) (bool, error) {
	switch {
	case b.config.Window > 0:
		return false, nil
	case !e.again:
		return true, nil
	}
	parked, known, err := b.park.Look(ctx, e.key)
	if err != nil || !known || parked.State == StateCancelled || parked.State == StateMoved {
		return false, err
	}
	return parked.Message.RoutingKey != m.RoutingKey || parked.Message.Entry != m.Entry || !bytes.Equal(parked.Message.Body, m.Body), nil
}

// publish returns once the broker has answered.
func (b *Bridge) publish(ctx context.Context, p *broker.Publisher, out broker.Outgoing) error {
	defer b.confirms.begin(out.Exchange, out.RoutingKey)()
	answer := make(chan error, 1)
	if err := p.Publish(ctx, out, func(err error) { answer <- err }); err != nil {
		return err
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
