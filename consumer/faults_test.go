package consumer_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/message"
)

// ledger counts how often each message was handled.
type ledger struct {
	mu    sync.Mutex
	times map[string]int
}

func (l *ledger) Handle(_ context.Context, m message.Message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.times == nil {
		l.times = map[string]int{}
	}
	l.times[m.ID]++
	return nil
}

// has returns nil once every one of n numbered messages was handled.
func (l *ledger) has(n int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.times) != n {
		return fmt.Errorf("%d messages handled, want %d", len(l.times), n)
	}
	return nil
}

func TestKilledAndSilentBroker(t *testing.T) {
	t.Parallel()
	server := servertest.RabbitMQForTest(t)
	b := &broker{
		t: t, url: server.AMQPURL(), management: server.ManagementURL(), vhost: "%2F",
		topology: describe(t, small("")), queue: "billing",
	}
	b.apply()
	b.bind()
	const n = 3000
	b.publish(numbered(n)...)
	var l ledger
	half := make(chan struct{})
	c := b.config(func(ctx context.Context, m message.Message) error {
		if m.ID == fmt.Sprintf("m-%d", n/2) {
			select {
			case <-half:
			default:
				close(half)
			}
		}
		return l.Handle(ctx, m)
	})
	c.Concurrency = 1
	r := start(t, c)
	<-half
	if err := server.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { return l.has(n) })
	b.wantHeld(b.queue, 0)

	// Nor does a silent broker hold up the end.
	if err := server.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.stop()
	if err := server.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestCutConnections(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.bind()
	var l ledger
	c := b.config(l.Handle)
	c.AMQPURL = b.userToBeCut()
	r := start(t, c)
	b.publish(numbered(10)...)
	r.observe(10)
	b.cutConnections(2)
	b.publish(numbered(200)...)
	eventually(t, func() error { return l.has(200) })
	r.stop()
	b.wantHeld(b.queue, 0)
}

func TestAHandlerOutlivesItsConnection(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.bind()
	begun, finish := make(chan struct{}, 2), make(chan struct{})
	c := b.config(func(ctx context.Context, _ message.Message) error {
		begun <- struct{}{}
		<-finish
		return ctx.Err()
	})
	c.AMQPURL = b.userToBeCut()
	r := start(t, c)
	b.publish(numbered(1)...)
	<-begun
	b.cutConnections(2)
	<-begun // delivered again
	close(finish)
	for _, o := range r.observe(2) {
		if o.Outcome != consumer.Acknowledged {
			t.Errorf("observed %+v; a lost acknowledgement is a duplicate, no failure", o)
		}
	}
	r.stop()
	b.wantHeld(b.queue, 0)
}

func TestQueueDeletedUnderTheConsumer(t *testing.T) {
	t.Parallel()
	for name, bind := range map[string][]string{"its own is declared again": {key}, "another's is waited for": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t)
			b.bind()
			c := b.config(acknowledge)
			c.Bind = bind
			r := start(t, c)
			b.publish(numbered(1)...)
			r.observe(1)
			if _, err := b.channel().QueueDelete(b.queue, false, false, false); err != nil {
				t.Fatal(err)
			}
			if bind == nil {
				r.wantFault(consumer.ErrNoQueue)
				b.bind()
			}
			b.wantConsumer() // once it is there again
			b.publish(numbered(1)...)
			r.observe(2)
		})
	}
}

func TestTwoConsumersShareAQueue(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.bind()
	var l ledger
	one, other := start(t, b.config(l.Handle)), start(t, b.config(l.Handle))
	const n = 500
	b.publish(numbered(n)...)
	eventually(t, func() error { return l.has(n) })
	one.stop()
	other.stop()
	for id, times := range l.times {
		if times != 1 {
			t.Errorf("%s was handled %d times", id, times)
		}
	}
	b.wantHeld(b.queue, 0)
}

func TestQuarantineCannotTakeAMessage(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.bind()
	r := start(t, b.config(func(context.Context, message.Message) error { return consumer.Reject(errHandler) }))
	quarantine := b.topology.Quarantine()
	if _, err := b.channel().QueueDelete(quarantine, false, false, false); err != nil {
		t.Fatal(err)
	}
	b.publish(numbered(1)...)
	eventually(t, func() error { // it is with the consumer, which cannot get rid of it
		return b.wantUnacknowledged(1)
	})
	b.apply()
	if o := r.observe(1)[0]; o.Outcome != consumer.Quarantined || o.Attempts != 1 {
		t.Errorf("observed %+v", o)
	}
	b.wantHeld(quarantine, 1)
}

func TestQuarantineExchangeIsGone(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.bind()
	r := start(t, b.config(func(context.Context, message.Message) error { return consumer.Reject(errHandler) }))
	b.wantConsumer() // it has checked the exchanges
	if err := b.channel().ExchangeDelete(b.topology.Quarantine(), false, false); err != nil {
		t.Fatal(err)
	}
	b.publish(numbered(1)...)
	eventually(t, func() error { return b.wantUnacknowledged(1) })
	b.apply()
	if o := r.observe(1)[0]; o.Outcome != consumer.Quarantined {
		t.Errorf("observed %+v", o)
	}
	b.wantHeld(b.topology.Quarantine(), 1)
}

// A broker that was reset has nothing at first. A bridge, or a person, puts the topology
// back; the consumer, its own queue.
func TestTopologyDeletedUnderTheConsumer(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := b.config(acknowledge)
	c.AMQPURL = b.userToBeCut()
	r := start(t, c)
	b.wantConsumer()
	ch := b.channel()
	for _, exchange := range []string{b.topology.ReadyExchange(), b.topology.Quarantine()} {
		if err := ch.ExchangeDelete(exchange, false, false); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ch.QueueDelete(b.queue, false, false, false); err != nil {
		t.Fatal(err)
	}
	b.cutConnections(2)
	r.wantFault(consumer.ErrMissing)
	b.apply()
	b.wantConsumer()
	b.publish(numbered(1)...)
	r.observe(1)
	r.stop()
}

func TestFirstStartWaitsForTheTopology(t *testing.T) {
	t.Parallel()
	b := newBareBroker(t)
	c := b.config(acknowledge)
	c.WaitForTopology = true
	r := start(t, c)
	r.wantFault(consumer.ErrMissing)
	b.apply()
	b.wantConsumer()
	b.publish(numbered(1)...)
	r.observe(1)
	r.stop()
}
