package producer_test

import (
	"context"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/servers/rabbitmq"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/producer"
	"github.com/delaybridge/delaybridge/topology"
)

func TestMain(m *testing.M) { servertest.Main(m) }

const (
	// patience is for what has no reason to take long, on a machine that may have.
	patience = 60 * time.Second
	// soon is long enough for what happens at once.
	soon = 50 * time.Millisecond
)

// parker is a Parker in memory, which answers as it is told.
type parker struct {
	mu     sync.Mutex
	ticket message.Ticket
	err    error
	hangs  chan struct{} // if any, is closed by the first call, which waits for the end of its context
	parked []message.Message
}

func (p *parker) Park(ctx context.Context, m *message.Message, w message.When) (message.Ticket, error) {
	if p.hangs != nil {
		close(p.hangs)
		<-ctx.Done()
		return message.Ticket{}, producer.ErrUnconfirmed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.parked = append(p.parked, *m)
	ticket := p.ticket
	if ticket.Due.IsZero() {
		ticket.Due = w.From(time.Now())
	}
	return ticket, p.err
}

func describe(t testing.TB, prefix string) *topology.Topology {
	t.Helper()
	top, err := topology.New(topology.Config{
		Prefix: prefix, Tiers: []time.Duration{300 * time.Millisecond, time.Second, time.Hour}, Lead: time.Second, Shards: 1,
		Entries: []topology.Entry{{Name: "audit", Kind: amqp.ExchangeFanout}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// newProducer makes one that does not run.
func newProducer(t testing.TB, c producer.Config) *producer.Producer {
	t.Helper()
	if c.Topology == nil {
		c.Topology = describe(t, "unit")
	}
	if c.AMQPURL == "" {
		c.AMQPURL = "amqp://guest:guest@127.0.0.1:1/"
	}
	p, err := producer.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// run runs p until the test is over, or until stop is called.
func run(t testing.TB, p *producer.Producer) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(patience):
			t.Errorf("Run did not end within %v", patience)
		}
	})
	t.Cleanup(stop)
	return stop
}

// bench is a broker with the topology, and a queue that hears all.
type bench struct {
	url      string
	topology *topology.Topology
	ch       *amqp.Channel
}

const everything = "everything"

func newBench(t testing.TB) (*bench, servertest.Env) {
	t.Helper()
	env := servertest.ForTest(t)
	b := &bench{url: env.AMQPURL, topology: describe(t, env.Prefix)}
	b.apply(t)
	return b, env
}

// newBenchOfItsOwn starts a broker that the test may kill, pause or block.
func newBenchOfItsOwn(t testing.TB, prefix string) (*rabbitmq.Node, *bench) {
	t.Helper()
	server := servertest.RabbitMQForTest(t)
	b := &bench{url: server.AMQPURL(), topology: describe(t, prefix)}
	b.apply(t)
	return server, b
}

func (b *bench) dial(t testing.TB) *amqp.Connection {
	t.Helper()
	conn, err := amqp.Dial(b.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (b *bench) apply(t testing.TB) {
	t.Helper()
	conn := b.dial(t)
	if _, err := b.topology.Apply(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	var err error
	if b.ch, err = conn.Channel(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.ch.QueueDeclare(everything, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	if err := b.ch.QueueBind(everything, "#", b.topology.ReadyExchange(), false, nil); err != nil {
		t.Fatal(err)
	}
}

// producer runs a producer until the test is over.
func (b *bench) producer(t testing.TB, c producer.Config) *producer.Producer {
	t.Helper()
	c.AMQPURL, c.Topology = b.url, b.topology
	p := newProducer(t, c)
	run(t, p)
	return p
}

// arrival is a delivery, and when it came.
type arrival struct {
	amqp.Delivery
	at time.Time
}

// collect takes messages from a queue until all those are there that are wanted.
func (b *bench) collect(t testing.TB, queue string, want ...string) map[string]arrival {
	t.Helper()
	conn := b.dial(t)
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.Consume(queue, "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	missing := map[string]bool{}
	for _, id := range want {
		missing[id] = true
	}
	got := map[string]arrival{}
	for deadline := time.After(patience); len(missing) > 0; {
		select {
		case d := <-deliveries:
			got[d.MessageId] = arrival{d, time.Now()}
			delete(missing, d.MessageId)
		case <-deadline:
			t.Fatalf("%d of %d messages did not arrive in %s", len(missing), len(want), queue)
		}
	}
	return got
}

func order(id string) message.Message {
	return message.Message{ID: id, RoutingKey: "order.unpaid", Body: []byte(id)}
}
