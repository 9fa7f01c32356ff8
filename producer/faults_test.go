package producer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/producer"
)

// load publishes from many goroutines, until it is stopped, by all paths that
// lead through the broker.
type load struct {
	stopped atomic.Bool
	all     sync.WaitGroup
	mu      sync.Mutex
	answers map[string]error
}

func startLoad(t *testing.T, p *producer.Producer) *load {
	t.Helper()
	l := &load{answers: map[string]error{}}
	for g := range 40 {
		w := message.After(time.Duration(g%2) * 300 * time.Millisecond)
		l.all.Go(func() {
			for i := 0; !l.stopped.Load(); i++ {
				id := fmt.Sprintf("%d-%d", g, i)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				_, err := p.Publish(ctx, order(id), w)
				cancel()
				l.mu.Lock()
				l.answers[id] = err
				l.mu.Unlock()
			}
		})
	}
	return l
}

// confirmed returns the IDs of what the broker has taken so far.
func (l *load) confirmed() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []string
	for id, err := range l.answers {
		if err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// await waits until so many more are confirmed.
func (l *load) await(t *testing.T, more int) {
	t.Helper()
	want := len(l.confirmed()) + more
	for deadline := time.Now().Add(patience); len(l.confirmed()) < want; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d messages confirmed within %v, want %d", len(l.confirmed()), patience, want)
		}
	}
}

func (l *load) stop() {
	l.stopped.Store(true)
	l.all.Wait()
}

func TestKilledBrokerHasWhatItConfirmed(t *testing.T) {
	t.Parallel()
	server, b := newBenchOfItsOwn(t, "killed")
	// Otherwise the queues would be too young to survive: see Kill.
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := startLoad(t, b.producer(t, producer.Config{}))
	for range 2 {
		l.await(t, 1000)
		if err := server.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	l.await(t, 1000)
	l.stop()

	arrived := b.collect(t, everything, l.confirmed()...)
	for id, err := range l.answers {
		_, there := arrived[id]
		switch {
		case err == nil, errors.Is(err, producer.ErrUnconfirmed):
		case !errors.Is(err, producer.ErrNotSent):
			t.Errorf("%s: got %v, want ErrUnconfirmed or ErrNotSent", id, err)
		case there:
			t.Errorf("%s was not sent, they say, and arrived: %v", id, err)
		}
	}
	t.Logf("%d published, %d confirmed, %d arrived", len(l.answers), len(l.confirmed()), len(arrived))
}

func TestMemoryAlarmHoldsPublishersUp(t *testing.T) {
	t.Parallel()
	server, b := newBenchOfItsOwn(t, "alarm")
	p := b.producer(t, producer.Config{})
	if _, err := p.Publish(t.Context(), order("before"), message.When{}); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Control(t.Context(), "set_vm_memory_high_watermark", "0.000001"); err != nil {
		t.Fatal(err)
	}
	// The broker tells those who publish, and answers for what they have published only when
	// it has memory again.
	alone, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	_, err := p.Publish(alone, order("first"), message.When{})
	cancel()
	if !errors.Is(err, producer.ErrUnconfirmed) || !strings.Contains(err.Error(), "blocked") || !strings.Contains(err.Error(), "low on memory") {
		t.Errorf("published before the broker said that it is short of memory: got %v, want ErrUnconfirmed, and that it is blocked", err)
	}
	l := startLoad(t, p)
	// The broker tells those who publish; from then on nothing is sent.
	err = nil
	for deadline := time.Now().Add(patience); !errors.Is(err, producer.ErrNotSent) && time.Now().Before(deadline); {
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		_, err = p.Publish(ctx, order("during"), message.When{})
		cancel()
	}
	if !errors.Is(err, producer.ErrNotSent) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "low on memory") {
		t.Errorf("while the broker is short of memory: got %v, want ErrNotSent, and why", err)
	}
	t.Log(err)
	if _, err := server.Control(t.Context(), "set_vm_memory_high_watermark", "0.4"); err != nil {
		t.Fatal(err)
	}
	l.await(t, 1000)
	l.stop()
	for id, err := range l.answers {
		if err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// A broker that has blocked publishers does not answer who closes a connection.
func TestMemoryAlarmDoesNotHoldUpTheEnd(t *testing.T) {
	t.Parallel()
	server, b := newBenchOfItsOwn(t, "alarm")
	p := newProducer(t, producer.Config{AMQPURL: b.url, Topology: b.topology})
	stop := run(t, p)
	if _, err := p.Publish(t.Context(), order("before"), message.When{}); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Control(t.Context(), "set_vm_memory_high_watermark", "0.000001"); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); p.Check() == nil; {
		if time.Now().After(deadline) {
			t.Fatal("the broker has not blocked the producer")
		}
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		_, _ = p.Publish(ctx, order("during"), message.When{}) // the broker tells those who publish
		cancel()
	}
	const most = 8 * time.Second // without a limit of its own it took 20
	began := time.Now()
	stop()
	if took := time.Since(began); took > most {
		t.Errorf("it took %v to end, want less than %v", took, most)
	}
}

// Work in hand is finished although the context of Run has ended.
func TestNothingUnderWayIsLostByStopping(t *testing.T) {
	t.Parallel()
	b, _ := newBench(t)
	p := newProducer(t, producer.Config{AMQPURL: b.url, Topology: b.topology})
	stop := run(t, p)
	l := startLoad(t, p)
	l.await(t, 200)
	stop()
	l.stopped.Store(true)
	l.all.Wait()
	for id, err := range l.answers {
		if err != nil && !errors.Is(err, producer.ErrNotSent) {
			t.Errorf("%s: got %v, want nil or ErrNotSent", id, err)
		}
	}
	b.collect(t, everything, l.confirmed()...)
}

// A queue that answers nothing, such as one without a majority, holds up no message to
// another, and no more than a few wait for it.
func TestSilentQueueHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	server := servertest.SingleRabbitMQ(t)
	b := &bench{url: server.AMQPURL(), topology: describe(t, "silent")}
	b.apply(t)
	ch, err := b.dial(t).Channel()
	if err != nil {
		t.Fatal(err)
	}
	for _, queue := range []string{"silent", "fine"} {
		if _, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
			t.Fatal(err)
		}
		if err := ch.QueueBind(queue, queue, b.topology.ReadyExchange(), false, nil); err != nil {
			t.Fatal(err)
		}
	}
	p := b.producer(t, producer.Config{})
	publish := func(ctx context.Context, key string, i int, w message.When) error {
		_, err := p.Publish(ctx, message.Message{ID: fmt.Sprint(key, i, w), RoutingKey: key, Body: []byte("x")}, w)
		return err
	}
	// Over a channel that has not met the queue RabbitMQ refuses after half a minute.
	if err := publish(t.Context(), "silent", -1, message.When{}); err != nil {
		t.Fatal(err)
	}
	resume := servertest.Silence(t, server, "silent")
	var hung, others sync.WaitGroup
	impatient, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for i := range 100 {
		hung.Go(func() {
			if err := publish(impatient, "silent", i, message.When{}); !errors.Is(err, producer.ErrUnconfirmed) && !errors.Is(err, producer.ErrNotSent) {
				t.Errorf("to the queue that answers nothing: got %v, want ErrUnconfirmed or ErrNotSent", err)
			}
		})
	}
	for i := range 200 {
		for _, w := range []message.When{{}, message.After(time.Second)} {
			others.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if err := publish(ctx, "fine", i, w); err != nil {
					t.Errorf("to another queue: %v", err)
				}
			})
		}
	}
	others.Wait()
	hung.Wait()
	late, cancelLate := context.WithTimeout(t.Context(), soon)
	defer cancelLate()
	if err := publish(late, "silent", 1000, message.When{}); !errors.Is(err, producer.ErrNotSent) || !strings.Contains(err.Error(), "answers nothing") {
		t.Errorf("to a queue that is known to answer nothing: got %v, want ErrNotSent, and why", err)
	}
	resume()
	if err := publish(t.Context(), "silent", 2000, message.When{}); err != nil {
		t.Errorf("to the queue that answers again: %v", err)
	}
}
