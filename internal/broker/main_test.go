package broker_test

import (
	"context"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// patience is for what has no reason to take long, on a machine that may have.
const patience = 60 * time.Second

// connect runs a connection until the test is over.
func connect(t *testing.T, url string) *broker.Conn {
	t.Helper()
	conn, err := broker.New(broker.Config{URL: url, Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- conn.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("connection: %v", err)
		}
	})
	return conn
}

// publisher closes with the test, before its connection.
func publisher(t *testing.T, conn *broker.Conn) *broker.Publisher {
	t.Helper()
	p := broker.NewPublisher(conn)
	t.Cleanup(p.Close)
	return p
}

// channel is for what a test does to the broker besides publishing.
func channel(t *testing.T, url string) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

func declare(t *testing.T, ch *amqp.Channel, name string, args amqp.Table) {
	t.Helper()
	if _, err := ch.QueueDeclare(name, true, false, false, false, args); err != nil {
		t.Fatal(err)
	}
}

func quorum() amqp.Table { return amqp.Table{"x-queue-type": "quorum"} }

// full declares a queue that refuses every message.
func full(t *testing.T, ch *amqp.Channel, name string) {
	t.Helper()
	declare(t, ch, name, amqp.Table{"x-queue-type": "classic", "x-max-length": int64(0), "x-overflow": "reject-publish"})
}

// ledger collects the answers to what was published.
type ledger struct {
	open    sync.WaitGroup
	mu      sync.Mutex
	answers map[string][]error
}

func newLedger() *ledger { return &ledger{answers: map[string][]error{}} }

func (l *ledger) note(id string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers[id] = append(l.answers[id], err)
}

// count returns how many messages have an answer.
func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.answers)
}

// publish sends a message whose ID is its body, too.
func (l *ledger) publish(ctx context.Context, p *broker.Publisher, exchange, key, id string) error {
	return l.send(exchange, key, id, func(out broker.Outgoing, done func(error)) error { return p.Publish(ctx, out, done) })
}

// publishTo is publish over a pool, to a queue.
func (l *ledger) publishTo(ctx context.Context, p *broker.Pool, queue, id string) error {
	return l.send("", queue, id, func(out broker.Outgoing, done func(error)) error {
		return p.Publish(ctx, broker.Target{Key: queue}, out, done)
	})
}

func (l *ledger) send(exchange, key, id string, publish func(broker.Outgoing, func(error)) error) error {
	l.open.Add(1)
	err := publish(broker.Outgoing{
		Exchange: exchange, RoutingKey: key, Mandatory: true,
		Publishing: amqp.Publishing{MessageId: id, DeliveryMode: amqp.Persistent, Body: []byte(id)},
	}, func(err error) {
		l.note(id, err)
		l.open.Done()
	})
	if err != nil {
		l.note(id, err)
		l.open.Done()
	}
	return err
}

// await waits until every message has its answer, and checks that it is one.
func (l *ledger) await(t *testing.T) map[string]error {
	t.Helper()
	all := make(chan struct{})
	go func() {
		l.open.Wait()
		close(all)
	}()
	select {
	case <-all:
	case <-time.After(patience):
		t.Fatalf("messages without an answer after %v", patience)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	single := map[string]error{}
	for id, answers := range l.answers {
		if len(answers) != 1 {
			t.Errorf("%s got %d answers: %v", id, len(answers), answers)
		}
		single[id] = answers[0]
	}
	return single
}

// drain empties a queue and returns the IDs in their order.
func drain(t *testing.T, ch *amqp.Channel, queue string) []string {
	t.Helper()
	var ids []string
	for {
		d, ok, err := ch.Get(queue, true)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return ids
		}
		ids = append(ids, d.MessageId)
	}
}

// until waits for a state.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline, tick := time.After(patience), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}
