package redisbridge_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// bench is a topology on real servers, a park, and a queue that hears all.
type bench struct {
	servertest.Env
	topology *topology.Topology
	client   redis.UniversalClient
	park     *redisbridge.Park
	arrivals *arrivals
	lost     []slotOwner // by disown
}

func newBench(t *testing.T, c topology.Config) *bench {
	t.Helper()
	b := newBenchAt(t, c, servertest.ForTest(t))
	b.arrivals = listen(t, b.dial(t))
	return b
}

// newBenchAt leaves what arrives in the queue.
func newBenchAt(t *testing.T, c topology.Config, env servertest.Env) *bench {
	t.Helper()
	c.Prefix = env.Prefix
	top, err := topology.New(c)
	if err != nil {
		t.Fatal(err)
	}
	client, err := redisbridge.NewClient(env.RedisURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	park, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: client, Topology: top})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{Env: env, topology: top, client: client, park: park}
	if env.OwnRedis() {
		servertest.VerifyAfterKills(t, park)
	} else {
		servertest.VerifyAfter(t, park)
	}
	// A cluster of which a node is down may be short of leaders for a while, as a busy node may, and says so
	// with an internal error: one tries again, as the error of Apply says.
	var busy *amqp.Error
	err = b.setUp(t)
	for deadline := time.Now().Add(patience); errors.As(err, &busy) && busy.Code == amqp.InternalError && time.Now().Before(deadline); pauseShortly() {
		err = b.setUp(t)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// setUp declares the topology, and a queue that gets all that is ready.
func (b *bench) setUp(t *testing.T) error {
	t.Helper()
	ch, err := b.dial(t).Channel()
	if err != nil {
		return err
	}
	if err := declare(ch, b.topology); err != nil {
		return err
	}
	if _, err := ch.QueueDeclare(queueName, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		return err
	}
	return ch.QueueBind(queueName, "#", b.topology.ReadyExchange(), false, nil)
}

// declare makes what Apply makes. Apply asks about each entity first, and the broker answers by closing
// the channel, which costs it more than the entities.
func declare(ch *amqp.Channel, top *topology.Topology) error {
	for _, q := range top.Queues() {
		if _, err := ch.QueueDeclare(q.Name, true, false, false, false, q.Args); err != nil {
			return err
		}
	}
	for _, x := range top.Exchanges() {
		if err := ch.ExchangeDeclare(x.Name, x.Kind, true, false, false, false, x.Args); err != nil {
			return err
		}
	}
	for _, one := range top.Bindings() {
		bind := ch.QueueBind
		if one.ToExchange {
			bind = ch.ExchangeBind
		}
		if err := bind(one.Destination, one.Key, one.Source, false, one.Args); err != nil {
			return err
		}
	}
	return nil
}

const queueName = "everything"

func (b *bench) dial(t *testing.T) *amqp.Connection {
	t.Helper()
	conn, err := amqp.Dial(b.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// run starts a bridge and returns what stops it and waits for its end.
func (b *bench) run(t *testing.T, change func(*redisbridge.Config)) (stop func()) {
	t.Helper()
	c := redisbridge.Config{Client: b.client, AMQPURL: b.AMQPURL, Topology: b.topology, Name: t.Name()}
	if change != nil {
		change(&c)
	}
	bridge, err := redisbridge.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- bridge.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("bridge: %v", err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

// parkOne parks a message of the given ID as parkThis does.
func (b *bench) parkOne(t *testing.T, id string, w message.When) time.Time {
	t.Helper()
	return b.parkThis(t, &message.Message{ID: id, RoutingKey: "order.unpaid", Body: []byte(id)}, w)
}

// parkThis parks a message and returns when it is due. On a slow machine a short delay may
// be over before Redis has the message, which Redis then does not keep; the next one counts.
func (b *bench) parkThis(t *testing.T, m *message.Message, w message.When) time.Time {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		ticket, err := b.park.Park(t.Context(), m, w)
		if err != nil {
			t.Fatal(err)
		}
		if ticket.Parking == message.Parked {
			return ticket.Due
		}
		if _, relative := w.Relative(); !relative || ticket.Parking != message.Overdue || time.Now().After(deadline) {
			t.Fatalf("%s: parking %v, want Parked", m.ID, ticket.Parking)
		}
	}
}

// arrivals collects what reaches the ready exchange.
type arrivals struct {
	mu      sync.Mutex
	byID    map[string][]arrival
	changed chan struct{}
}

type arrival struct {
	message.Message
	at time.Time
}

func listen(t *testing.T, conn *amqp.Connection) *arrivals {
	t.Helper()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.Consume(queueName, "", true, true, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := &arrivals{byID: map[string][]arrival{}, changed: make(chan struct{}, 1)}
	go func() {
		for d := range deliveries {
			a.note(&d)
		}
	}()
	return a
}

func (a *arrivals) note(d *amqp.Delivery) {
	at := time.Now()
	a.mu.Lock()
	a.byID[d.MessageId] = append(a.byID[d.MessageId], arrival{message.FromBridge(d), at})
	a.mu.Unlock()
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// of returns the arrivals of one message.
func (a *arrivals) of(id string) []arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.byID[id])
}

// await returns the arrivals once n different messages are there.
func (a *arrivals) await(t *testing.T, n int, patience time.Duration) map[string][]arrival {
	t.Helper()
	deadline := time.After(patience)
	for {
		a.mu.Lock()
		got := len(a.byID)
		if got >= n {
			all := make(map[string][]arrival, got)
			for id, list := range a.byID {
				all[id] = append([]arrival(nil), list...)
			}
			a.mu.Unlock()
			return all
		}
		a.mu.Unlock()
		select {
		case <-a.changed:
		case <-deadline:
			t.Fatalf("%d of %d messages arrived within %v", got, n, patience)
		}
	}
}

// patience is for what has no reason to take long, on a machine that may have.
const patience = 2 * time.Minute

func short() topology.Config {
	return topology.Config{Tiers: []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second}, Lead: 2 * time.Second, Shards: 2}
}

func TestEveryPathIsExact(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	b.run(t, nil)
	due, path := map[string]time.Time{}, map[string]message.Path{}
	untaken := map[message.Path]bool{}
	for round, deadline := 0, time.Now().Add(patience); round == 0 || len(untaken) > 0; round++ {
		if time.Now().After(deadline) {
			t.Fatalf("nothing took the paths %v", untaken)
		}
		for delay, want := range map[time.Duration]message.Path{
			300 * time.Millisecond:  wire.ReadyPath,
			450 * time.Millisecond:  wire.ReadyPath,
			900 * time.Millisecond:  message.Path("parked, then lane 500ms"),
			1700 * time.Millisecond: message.Path("parked, then lane 1s"),
			3100 * time.Millisecond: message.Path("parked, then lane 2s"),
		} {
			if round == 0 {
				untaken[want] = true
			}
			for i := range 10 {
				id := fmt.Sprintf("%v-%d-%d", delay, round, i)
				due[id], path[id] = b.parkOne(t, id, message.After(delay)), want
			}
		}
		for id, list := range b.arrivals.await(t, len(due), patience) {
			if len(list) != 1 {
				t.Errorf("%s arrived %d times", id, len(list))
			}
			got := list[0]
			if got.at.Before(due[id]) {
				t.Errorf("%s arrived %v early", id, due[id].Sub(got.at))
			}
			// What a slow machine promotes too late for its lane needs none.
			taken := got.Journey.Path
			if taken != path[id] && taken != wire.ReadyPath {
				t.Errorf("%s: took path %q, want %q", id, taken, path[id])
			}
			delete(untaken, taken)
			if !got.Journey.Due.Equal(due[id]) || string(got.Body) != id || got.RoutingKey != "order.unpaid" {
				t.Errorf("%s: got due %v, body %q, key %q; want %v", id, got.Journey.Due, got.Body, got.RoutingKey, due[id])
			}
		}
	}
}

func TestEarlierMessageWakesTheBridge(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	b.run(t, nil)
	b.parkOne(t, "in an hour", message.After(time.Hour))
	b.parkOne(t, "first", message.After(300*time.Millisecond))
	b.arrivals.await(t, 1, patience)
	// The bridge now sleeps for half a minute at a time, unless it is woken.
	due := b.parkOne(t, "second", message.After(300*time.Millisecond))
	late := b.arrivals.await(t, 2, patience)["second"][0].at.Sub(due)
	if late > 10*time.Second {
		t.Errorf("%v late: the bridge was not woken", late)
	}
}

func TestParkingSaysWhatItDid(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	m := &message.Message{ID: "o-1", RoutingKey: "k"}
	first, err := b.park.Park(t.Context(), m, message.After(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	again, err := b.park.Park(t.Context(), m, message.After(time.Hour))
	if err != nil || again.Parking != message.ParkedBefore || !again.Due.Equal(first.Due) {
		t.Errorf("parked again: got %+v, %v; want ParkedBefore and the first due time %v", again, err, first.Due)
	}
	past := time.Now().Add(-time.Minute)
	overdue, err := b.park.Park(t.Context(), &message.Message{ID: "o-2", RoutingKey: "k"}, message.At(past))
	if err != nil || overdue.Parking != message.Overdue {
		t.Errorf("an instant in the past: got %+v, %v; want Overdue", overdue, err)
	}
}

func TestParkedMessageKeepsEverything(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	b.run(t, nil)
	want := message.Message{
		ID: "full", RoutingKey: "a.b.c", Body: []byte{0, 1, 255}, ContentType: "ct", ContentEncoding: "ce",
		CorrelationID: "corr", ReplyTo: "reply", Type: "type", AppID: "app", Timestamp: time.Unix(1_700_000_000, 0),
		Expiration: "60000", UserID: "somebody else", Priority: 7,
		Headers: amqp.Table{
			"bool": true, "int8": int8(-8), "byte": byte(8), "int16": int16(-16), "uint16": uint16(16), "int32": int32(-32),
			"uint32": uint32(32), "int64": int64(-1 << 60), "float": float32(1.5), "double": 2.5, "text": "t", "bytes": []byte{9, 0},
			"decimal": amqp.Decimal{Scale: 2, Value: -314}, "time": time.Unix(1_600_000_000, 0), "nothing": nil,
			"table": amqp.Table{"array": []any{int32(1), amqp.Table{"deep": "er"}}},
		},
	}
	if _, err := b.park.Park(t.Context(), &want, message.After(600*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	got := b.arrivals.await(t, 1, patience)["full"][0].Message
	got.Journey = message.Journey{}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %#v\nwant %#v", got, want)
	}
}

func parseInt(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// lookUp says whether a message is known.
func lookUp(m redisbridge.MessageState, err error) (redisbridge.MessageState, bool, error) {
	if errors.Is(err, redisbridge.ErrNotFound) {
		return m, false, nil
	}
	return m, err == nil, err
}
