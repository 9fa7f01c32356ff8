package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/topology"
)

const (
	patience = 2 * time.Minute // for a state that is sure to come
	key      = "order.unpaid"
)

// broker is one test's corner of a broker, with the topology in it.
type broker struct {
	t          testing.TB
	url        string
	management string
	vhost      string // as in a path
	topology   *topology.Topology
	queue      string // the name of the consumer's queue
}

// small is a topology of few queues, each of which costs the broker time: consumers have to do with none of its tiers.
func small(prefix string) topology.Config {
	return topology.Config{Prefix: prefix, Tiers: []time.Duration{time.Second}, Lead: time.Second, Shards: 1}
}

func newBroker(t testing.TB) *broker {
	t.Helper()
	b := newBareBroker(t)
	b.apply()
	return b
}

// newBareBroker is without the topology.
func newBareBroker(t testing.TB) *broker {
	t.Helper()
	env := servertest.ForTest(t)
	return &broker{
		t: t, url: env.AMQPURL, management: env.ManagementURL, vhost: env.VHost,
		topology: describe(t, small(env.Prefix)), queue: "billing",
	}
}

// apply declares the topology.
func (b *broker) apply() {
	b.t.Helper()
	conn, err := amqp.Dial(b.url)
	if err != nil {
		b.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := b.topology.Apply(b.t.Context(), conn); err != nil {
		b.t.Fatal(err)
	}
}

// channel opens a channel on a connection of its own.
func (b *broker) channel() *amqp.Channel {
	b.t.Helper()
	conn, err := amqp.Dial(b.url)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = conn.Close() }) // the test may have ended it
	ch, err := conn.Channel()
	if err != nil {
		b.t.Fatal(err)
	}
	return ch
}

// config is that of a consumer which binds its own queue and retries fast.
func (b *broker) config(h consumer.HandlerFunc) consumer.Config {
	return consumer.Config{
		AMQPURL: b.url, Topology: b.topology, Queue: b.queue, Bind: []string{key}, Handler: h,
		Retry: consumer.Retry{Base: 10 * time.Millisecond, Attempts: 5},
	}
}

// running is a consumer at work.
type running struct {
	check  func() error
	t      testing.TB
	cancel context.CancelFunc
	ready  <-chan struct{}
	ended  chan struct{}
	err    error // read it after ended

	mu       sync.Mutex
	observed []consumer.Observation
}

// start runs a consumer, and ends it with the test.
func start(t testing.TB, c consumer.Config) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: t, cancel: cancel, ended: make(chan struct{})}
	c.Observe = func(o consumer.Observation) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.observed = append(r.observed, o)
	}
	instance, err := consumer.New(c)
	if err != nil {
		t.Fatal(err)
	}
	r.ready, r.check = instance.Ready(), instance.Check
	go func() {
		defer close(r.ended)
		r.err = instance.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-r.ended
	})
	return r
}

// wantFault waits until the consumer says why it does not consume.
func (r *running) wantFault(want error) {
	r.t.Helper()
	eventually(r.t, func() error {
		if err := r.check(); !errors.Is(err, want) {
			return fmt.Errorf("the consumer says %w, want %w", err, want)
		}
		return nil
	})
}

// await waits for Run's end and returns its error.
func (r *running) await() error {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(patience):
		r.t.Fatal("Run does not end")
	}
	return r.err
}

// stop ends the consumer in the orderly way.
func (r *running) stop() {
	r.t.Helper()
	r.cancel()
	if err := r.await(); err != nil {
		r.t.Errorf("Run: %v", err)
	}
}

func (r *running) observations() []consumer.Observation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]consumer.Observation(nil), r.observed...)
}

// observe waits for n observations.
func (r *running) observe(n int) []consumer.Observation {
	r.t.Helper()
	eventually(r.t, func() error {
		if seen := len(r.observations()); seen < n {
			return fmt.Errorf("%d messages observed, want %d", seen, n)
		}
		return nil
	})
	return r.observations()
}

// eventually waits until holds returns nil.
func eventually(t testing.TB, holds func() error) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := holds()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("after %v: %v", patience, err)
		case <-tick.C:
		}
	}
}

// bind declares the consumer's queue as the consumer would, so that nothing is
// published before there is somewhere to go. It comes before the consumer: while two
// declare a queue and bind it, RabbitMQ 4.0 may find no queue for a message.
func (b *broker) bind() {
	b.t.Helper()
	ch := b.channel()
	_, err := ch.QueueDeclare(b.queue, true, false, false, false, amqp.Table{
		"x-queue-type": "quorum", "x-delivery-limit": int64(20), "x-dead-letter-exchange": b.topology.Quarantine(),
		"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
	})
	if err == nil {
		err = ch.QueueBind(b.queue, key, b.topology.ReadyExchange(), false, nil)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// publish sends messages to the ready exchange as if they were due. RabbitMQ
// 3.10 may refuse one for a queue that is new: then it does not have the message, and
// gets it again.
func (b *broker) publish(messages ...message.Message) {
	b.t.Helper()
	ch := b.channel()
	if err := ch.Confirm(false); err != nil {
		b.t.Fatal(err)
	}
	for _, m := range messages {
		journey := m.Journey
		if journey.Path == "" {
			journey = message.Journey{Due: time.Now(), Path: message.PathDirect}
		}
		eventually(b.t, func() error {
			confirmed, err := ch.PublishWithDeferredConfirm(b.topology.ReadyExchange(), key, true, false, m.Publishing(journey))
			if err == nil && !confirmed.Wait() {
				err = errors.New("refused")
			}
			if err != nil {
				return fmt.Errorf("publish %s: %w", m.ID, err)
			}
			return nil
		})
	}
}

// numbered are n messages, m-0 and on.
func numbered(n int) []message.Message {
	messages := make([]message.Message, n)
	for i := range messages {
		messages[i] = message.Message{ID: fmt.Sprintf("m-%d", i), Body: []byte("body")}
	}
	return messages
}

// wantHeld waits until queue holds n messages that nobody has taken.
func (b *broker) wantHeld(queue string, n int) {
	b.t.Helper()
	b.wantQueue(queue, func(q amqp.Queue) bool { return q.Messages == n }, fmt.Sprintf("%d messages", n))
}

// wantConsumer waits until the consumer's queue is consumed.
func (b *broker) wantConsumer() {
	b.t.Helper()
	b.wantQueue(b.queue, func(q amqp.Queue) bool { return q.Consumers == 1 }, "a consumer")
}

func (b *broker) wantQueue(name string, is func(amqp.Queue) bool, what string) {
	b.t.Helper()
	ch := b.channel()
	eventually(b.t, func() error {
		q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
		if err != nil {
			ch = b.channel() // the error has closed it
			return err
		}
		if !is(q) {
			return fmt.Errorf("queue is %+v, want %s", q, what)
		}
		return nil
	})
}

// get takes the next message of queue.
func (b *broker) get(queue string) amqp.Delivery {
	b.t.Helper()
	ch := b.channel()
	var d amqp.Delivery
	eventually(b.t, func() error {
		next, ok, err := ch.Get(queue, true)
		if err == nil && !ok {
			err = fmt.Errorf("%s is empty", queue)
		}
		d = next
		return err
	})
	return d
}
