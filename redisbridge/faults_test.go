package redisbridge_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/health"
	"github.com/delaybridge/delaybridge/internal/servers/rabbitmq"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// parkMany parks n messages, due between 1 and 2 seconds from now.
func (b *bench) parkMany(t *testing.T, name string, n int) {
	t.Helper()
	for i := range n {
		b.parkOne(t, fmt.Sprintf("%s-%d", name, i), message.After(time.Second+time.Duration(i)*time.Second/time.Duration(n)))
	}
}

func TestWhatADeadBridgeHadClaimedIsDelivered(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	c := redisbridge.Config{Client: b.client, AMQPURL: b.AMQPURL, Topology: b.topology, Name: "dead", Lease: 300 * time.Millisecond}
	dead, err := redisbridge.New(c)
	if err != nil {
		t.Fatal(err)
	}
	due := b.parkOne(t, "claimed", message.After(550*time.Millisecond))
	claimed := 0
	for deadline := time.Now().Add(patience); claimed == 0 && time.Now().Before(deadline); {
		if claimed, err = redisbridge.ClaimAndVanish(t.Context(), dead, redisbridge.ShardOf(dead, "claimed")); err != nil {
			t.Fatal(err)
		}
	}
	b.run(t, nil)
	got := b.arrivals.await(t, 1, patience)["claimed"][0]
	if got.at.Before(due) {
		t.Errorf("%v early", due.Sub(got.at))
	}
}

// A claim whose answer is lost is repeated with the turn of the claim before.
func TestClaimWithoutAnswerIsRepeated(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	deaf, err := redisbridge.New(redisbridge.Config{Client: b.client, AMQPURL: b.AMQPURL, Topology: b.topology, Name: "deaf"})
	if err != nil {
		t.Fatal(err)
	}
	b.parkOne(t, "m", message.After(time.Millisecond))
	shard, taken := redisbridge.ShardOf(deaf, "m"), 0
	for range 2 {
		n := 0
		for deadline := time.Now().Add(patience); n == 0 && time.Now().Before(deadline); {
			if n, err = redisbridge.ClaimAndVanish(t.Context(), deaf, shard); err != nil {
				t.Fatal(err)
			}
		}
		taken += n
	}
	if taken != 2 {
		t.Errorf("the message was claimed %d times, want again after the answer that was not heard", taken)
	}
}

func TestBridgesShareAndTakeOver(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	stop := b.run(t, nil)
	b.parkMany(t, "one", 200)
	b.run(t, nil)
	b.parkMany(t, "both", 200)
	stop()
	b.parkMany(t, "other", 200)
	for id, list := range b.arrivals.await(t, 600, patience) {
		if len(list) != 1 {
			t.Errorf("%s arrived %d times though no bridge died", id, len(list))
		}
		if early := list[0].Journey.Due.Sub(list[0].at); early > 0 {
			t.Errorf("%s arrived %v early", id, early)
		}
	}
}

func TestPauseShorterThanTheTierCostsNothing(t *testing.T) {
	t.Parallel()
	const lane, stands, n = 20 * time.Second, 8 * time.Second, 300
	b := newBench(t, topology.Config{Tiers: []time.Duration{lane}, Lead: lane, Shards: 2})
	stop := b.run(t, nil)
	for i := range n {
		b.parkOne(t, fmt.Sprintf("m-%d", i), message.After(lane+500*time.Millisecond+time.Duration(i)*3*time.Millisecond))
	}
	stop()
	time.Sleep(stands) // the pause under test: promotions fall due meanwhile
	b.run(t, nil)
	var late []time.Duration
	for _, list := range b.arrivals.await(t, n, patience) {
		if list[0].Journey.Path != message.Path("parked, then lane 20s") {
			t.Errorf("path %q, want the lane it was meant for", list[0].Journey.Path)
		}
		late = append(late, list[0].at.Sub(list[0].Journey.Due))
	}
	slices.Sort(late)
	if median := late[n/2]; median > stands/2 {
		t.Errorf("half of the messages were more than %v late after a pause of %v", median, stands)
	}
}

// A TTL that was computed with the clock of before a pause would hold up the
// whole lane; and after a pause that outlasts the lease, the message is another
// bridge's.
func TestPauseBetweenClaimAndPublishCostsNothing(t *testing.T) {
	t.Parallel()
	const lane, stands = 8 * time.Second, 4 * time.Second
	for name, tc := range map[string]struct {
		lease  time.Duration
		claims int
	}{"within the lease": {time.Minute, 1}, "longer than the lease": {time.Second, 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, topology.Config{Tiers: []time.Duration{lane}, Lead: lane, Shards: 1})
			b.parkOne(t, "m", message.After(lane+500*time.Millisecond))
			client, err := redisbridge.NewClient(b.RedisURL)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = client.Close() })
			client.AddHook(&stillstand{lasts: stands})
			var mu sync.Mutex
			steps := map[redisbridge.Step]int{}
			b.run(t, func(c *redisbridge.Config) {
				c.Client, c.Lease = client, tc.lease
				c.Observe = func(step redisbridge.Step, _ string, _ message.Path) {
					mu.Lock()
					defer mu.Unlock()
					steps[step]++
				}
			})
			got := b.arrivals.await(t, 1, patience)["m"][0]
			if late := got.at.Sub(got.Journey.Due); late < 0 || late > stands/2 || got.Journey.Path != message.Path("parked, then lane 8s") {
				t.Errorf("%v late by path %s, after a pause of %v in a lane of %v", late, got.Journey.Path, stands, lane)
			}
			mu.Lock()
			defer mu.Unlock()
			if steps[redisbridge.StepClaimed] != tc.claims || steps[redisbridge.StepPublished] != 1 {
				t.Errorf("claimed %d times and published %d times, want %d and 1", steps[redisbridge.StepClaimed], steps[redisbridge.StepPublished], tc.claims)
			}
		})
	}
}

// stillstand has a client stand still once, between the answer to a claim that
// got something and its caller.
type stillstand struct {
	lasts time.Duration
	once  sync.Once
}

func (*stillstand) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*stillstand) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (s *stillstand) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		claims := slices.ContainsFunc(cmd.Args(), func(arg any) bool { return arg == "preferred" || arg == "standby" })
		if answer, ok := cmd.(*redis.Cmd); ok && claims {
			if list, _ := answer.Slice(); len(list) > 8 { // beyond what every claim answers
				s.once.Do(func() { time.Sleep(s.lasts) })
			}
		}
		return err
	}
}

func TestChangingTheTiersLosesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	for i := range 50 {
		b.parkOne(t, fmt.Sprintf("m-%d", i), message.After(2500*time.Millisecond+time.Duration(i)*20*time.Millisecond))
	}
	changed, err := topology.New(topology.Config{
		Prefix: b.Prefix, Tiers: []time.Duration{700 * time.Millisecond, 1300 * time.Millisecond}, Lead: 2 * time.Second, Shards: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	b.topology = changed
	if _, err := changed.Apply(t.Context(), b.dial(t)); err != nil {
		t.Fatal(err)
	}
	b.run(t, nil)
	for id, list := range b.arrivals.await(t, 50, patience) {
		if early := list[0].Journey.Due.Sub(list[0].at); early > 0 {
			t.Errorf("%s arrived %v early", id, early)
		}
	}
}

func TestUnreadableMessageGoesToQuarantine(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	b.parkOne(t, "broken", message.After(700*time.Millisecond))
	keys := keysLike(t, b.RedisURL, "{"+b.Prefix+":*}:env:*")
	if len(keys) != 1 {
		t.Fatalf("keys %v; want one", keys)
	}
	stored := b.client.HGet(t.Context(), keys[0], "broken").Val()
	if err := b.client.HSet(t.Context(), keys[0], "broken", stored[:22]+"\x63rest").Err(); err != nil {
		t.Fatal(err)
	}
	b.parkOne(t, "healthy", message.After(800*time.Millisecond))
	b.run(t, nil)
	b.arrivals.await(t, 1, patience)
	d := b.awaitIn(t, b.topology.Quarantine())
	if d.MessageId != "broken" || !strings.Contains(fmt.Sprint(d.Headers[wire.HeaderError]), "version 99") {
		t.Errorf("in quarantine: %s, %v", d.MessageId, d.Headers)
	}
}

// A record that is cut off, wherever, goes to quarantine and holds up none.
func TestRecordCutOffHoldsUpNone(t *testing.T) {
	t.Parallel()
	for _, left := range []int{0, 5, 13, 14, 20, 22, 25} {
		t.Run(strconv.Itoa(left), func(t *testing.T) {
			t.Parallel()
			c := short()
			c.Shards = 1
			b := newBench(t, c)
			b.parkOne(t, "cut", message.After(700*time.Millisecond))
			key := redisbridge.EnvelopesOf(b.topology, "cut")
			stored := b.client.HGet(t.Context(), key, "cut").Val()
			if err := b.client.HSet(t.Context(), key, "cut", stored[:left]).Err(); err != nil {
				t.Fatal(err)
			}
			b.parkOne(t, "healthy", message.After(800*time.Millisecond))
			b.run(t, nil)
			b.arrivals.await(t, 1, patience)
			if d := b.awaitIn(t, b.topology.Quarantine()); d.MessageId != "cut" || d.Headers[wire.HeaderError] == nil {
				t.Errorf("in quarantine: %s, %v", d.MessageId, d.Headers)
			}
		})
	}
}

// awaitIn gets one message from a queue.
func (b *bench) awaitIn(t *testing.T, queue string) amqp.Delivery {
	t.Helper()
	ch, err := b.dial(t).Channel()
	if err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.Consume(queue, "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case d := <-deliveries:
		return d
	case <-time.After(patience):
		t.Fatalf("nothing in %s within %v", queue, patience)
		return amqp.Delivery{}
	}
}

// A broker that closes the channel over a message may take it a moment later.
func TestObjectionThatPasses(t *testing.T) {
	t.Parallel()
	rabbit, env := servertest.RabbitMQForTest(t), servertest.ForTest(t)
	env.AMQPURL = rabbit.AMQPURL()
	b := newBenchAt(t, short(), env)
	b.arrivals = b.keepListening(t)
	lift := b.limitMessagesUntilAsked(t, rabbit, "1000")
	log := newLogCapture()
	b.run(t, func(c *redisbridge.Config) { c.Logger = log.logger() })
	due := b.parkThis(t, &message.Message{ID: "large", RoutingKey: "order.unpaid", Body: make([]byte, 2000)}, message.After(time.Second))
	log.await(t, "the broker closes the channel over a message")
	lift()
	taken := time.Now()
	got := b.arrivals.await(t, 1, patience)["large"][0]
	if late := got.at.Sub(taken); got.at.Before(due) || late > brokenPause/2 {
		t.Errorf("arrived %v after the broker would take it, due %v before that", late, taken.Sub(due))
	}
	if n := log.count("the broker closes the channel over a message"); n > 8 {
		t.Errorf("the broker was given the message %d times while it did not take it", n)
	}
}

// What the broker will never accept is tried a few times, and then goes to quarantine with
// the reason. Its shard's other messages are delivered.
func TestNeverAcceptedGoesToQuarantine(t *testing.T) {
	t.Parallel()
	c := short()
	c.Shards = 1
	b := newBench(t, c)
	log := newLogCapture()
	b.run(t, func(c *redisbridge.Config) { c.Logger = log.logger() })
	b.parkThis(t, &message.Message{ID: "bad", RoutingKey: "order.unpaid", Headers: amqp.Table{"CC": "no array"}}, message.After(time.Second))
	log.await(t, "the broker closes the channel over a message")
	for i := range 20 {
		b.parkOne(t, fmt.Sprint("good-", i), message.After(time.Second))
	}
	b.arrivals.await(t, 20, patience)
	until(t, "the broker was given the message for the last time", func() bool { return log.count("the broker closes the channel over a message") == 5 })
	d := b.awaitIn(t, b.topology.Quarantine())
	if d.MessageId != "bad" || !strings.Contains(fmt.Sprint(d.Headers[wire.HeaderError]), "PRECONDITION_FAILED") {
		t.Errorf("in quarantine: %s, %v", d.MessageId, d.Headers)
	}
	if n := log.count("the broker closes the channel over a message"); n != 5 {
		t.Errorf("the broker was given the message %d times, want 5", n)
	}
	until(t, "Redis has done with it", func() bool {
		held, err := redisbridge.Holds(t.Context(), b.client, b.topology, "bad")
		return err == nil && !held
	})
}

// What quarantine does not accept either stays in Redis, and whoever raises the limit can have
// it tried again.
func TestTooLargeForQuarantineStaysInRedis(t *testing.T) {
	t.Parallel()
	rabbit, env := servertest.RabbitMQForTest(t), servertest.ForTest(t)
	env.AMQPURL = rabbit.AMQPURL()
	c := short()
	c.Shards = 1
	b := newBenchAt(t, c, env)
	b.arrivals = b.keepListening(t)
	usual := limitMessages(t, rabbit, "1000")
	log := newLogCapture()
	b.run(t, func(c *redisbridge.Config) { c.Logger = log.logger() })
	b.parkThis(t, &message.Message{ID: "large", RoutingKey: "order.unpaid", Body: make([]byte, 2000)}, message.After(time.Second))
	for n := range 5 { // as TestNeverAcceptedGoesToQuarantine, without the pauses between
		until(t, "the broker is given the message", func() bool { return log.count("the broker closes the channel over a message") > n })
		b.changed(t, redisbridge.OutcomeDone, 1)(b.park.Reschedule(t.Context(), "large", message.After(0)))
	}
	log.await(t, "RabbitMQ does not accept a message")
	if r := b.awaitCondition(t, health.Unfit); !strings.Contains(r.Detail, "large") || !strings.Contains(r.Detail, "PRECONDITION_FAILED") {
		t.Errorf("reported as %q", r.Detail)
	}
	before, _, _ := strings.Cut(log.all(), "RabbitMQ does not accept a message")
	if n := strings.Count(before, "the broker closes the channel over a message"); n != 6 {
		t.Errorf("the broker was given the message %d times, want 5, and once for quarantine", n)
	}
	b.parkOne(t, "small", message.After(time.Second))
	b.arrivals.await(t, 1, patience)
	limitMessages(t, rabbit, usual)
	if change, err := b.park.Reschedule(t.Context(), "large", message.After(time.Second)); err != nil {
		t.Fatal(change, err)
	}
	if got := b.arrivals.await(t, 2, patience)["large"]; len(got) != 1 || len(got[0].Body) != 2000 {
		t.Errorf("arrived: %v", got)
	}
	b.awaitOver(t, health.Unfit)
}

// limitMessages sets the broker's max_message_size and returns what it was.
func limitMessages(t *testing.T, rabbit *rabbitmq.Node, bytes string) (before string) {
	t.Helper()
	before, err := rabbit.Control(t.Context(), "eval", "{ok, M} = application:get_env(rabbit, max_message_size), "+
		"application:set_env(rabbit, max_message_size, "+bytes+"), persistent_term:put(max_message_size, "+bytes+"), M.") // of 3.x, and of 4.x
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(before)
}

// limitMessagesUntilAsked limits the size of messages until lift is called. The broker waits for
// lift itself, as rabbitmqctl may take longer than the five tries before quarantine.
func (b *bench) limitMessagesUntilAsked(t *testing.T, rabbit *rabbitmq.Node, bytes string) (lift func()) {
	t.Helper()
	uri, err := amqp.ParseURI(b.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	usual := limitMessages(t, rabbit, bytes)
	const asking = "lift-the-limit"
	_, err = rabbit.Control(t.Context(), "eval", "spawn(fun() -> Wait = fun W() -> "+
		"case rabbit_amqqueue:lookup(rabbit_misc:r(<<\""+uri.Vhost+"\">>, queue, <<\""+asking+"\">>)) of "+
		"{ok, _} -> application:set_env(rabbit, max_message_size, "+usual+"), persistent_term:put(max_message_size, "+usual+"); "+
		"_ -> timer:sleep(50), W() end end, Wait() end).")
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if _, err := b.channel(t).QueueDeclare(asking, true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// keepListening is listen for brokers that come and go: it connects again, and then what it
// has not acknowledged comes again.
func (b *bench) keepListening(t *testing.T) *arrivals {
	t.Helper()
	a := &arrivals{byID: map[string][]arrival{}, changed: make(chan struct{}, 1)}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	t.Cleanup(func() { stop(); <-ended })
	go func() {
		defer close(ended)
		for ; ctx.Err() == nil; pauseShortly() {
			if err := a.hear(ctx, b.AMQPURL); err != nil && ctx.Err() == nil {
				t.Logf("listening again: %v", err)
			}
		}
	}()
	return a
}

// hear takes what comes to the queue until ctx ends or the connection.
func (a *arrivals) hear(ctx context.Context, url string) error {
	conn, err := amqp.Dial(url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	deliveries, err := ch.Consume(queueName, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case d, ok := <-deliveries:
			if !ok {
				return fmt.Errorf("no more deliveries, and closed is %v of the connection", conn.IsClosed())
			}
			a.note(&d)
			if err := d.Ack(false); err != nil {
				return err
			}
		}
	}
}

// tellWhereTheyAre logs what Redis knows of each message that did not arrive.
func (b *bench) tellWhereTheyAre(t *testing.T, due map[string]time.Time) {
	t.Helper()
	b.arrivals.mu.Lock()
	defer b.arrivals.mu.Unlock()
	for id, at := range due {
		if len(b.arrivals.byID[id]) == 0 {
			e, known, err := lookUp(b.park.Get(t.Context(), id))
			t.Logf("%s, due %v: %+v, known %v (%v)", id, at, e, known, err)
		}
	}
}

func TestServersThatRestartLoseNothing(t *testing.T) {
	t.Parallel()
	rabbit, store := servertest.RabbitMQForTest(t), servertest.RedisForTest(t)
	b := newBenchAt(t, short(), servertest.Env{AMQPURL: rabbit.AMQPURL(), RedisURL: store.URL(), Prefix: "restart"})
	// The broker forgets a quorum queue when it is killed within a second or so
	// of the queue's declaration; an orderly restart makes it known.
	if err := rabbit.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	log := newLogCapture()
	b.run(t, func(c *redisbridge.Config) { c.Logger = log.logger() })
	due := map[string]time.Time{}
	park := func(name string) {
		for i := range 100 {
			id := fmt.Sprintf("%s-%d", name, i)
			due[id] = b.parkOne(t, id, message.After(time.Duration(900+i*20)*time.Millisecond))
		}
	}
	park("before redis died")
	if err := errors.Join(store.Kill(t.Context()), store.Restart(t.Context())); err != nil {
		t.Fatal(err)
	}
	operator(servertest.Primaries(t, store.URL())).do(t, "SCRIPT", "FLUSH")
	park("before rabbitmq died")
	if err := errors.Join(rabbit.Kill(t.Context()), rabbit.Restart(t.Context())); err != nil {
		t.Fatal(err)
	}
	b.arrivals = b.keepListening(t)
	defer func() {
		if t.Failed() {
			b.tellWhereTheyAre(t, due)
			queues, err := rabbit.Control(t.Context(), "list_queues", "name", "messages_ready", "messages_unacknowledged", "leader", "online")
			t.Logf("%s\n%v\n%s", log.all(), err, queues)
		}
	}()
	for id, list := range b.arrivals.await(t, len(due), patience) {
		if at, ok := due[id]; ok && list[0].at.Before(at) {
			t.Errorf("%s arrived %v early", id, at.Sub(list[0].at))
		}
	}
}

func TestWrongConfigurationIsSaid(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	more := short()
	more.Prefix, more.Shards = b.Prefix, 3
	other, err := topology.New(more)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.park.Park(t.Context(), &message.Message{ID: "m", RoutingKey: "k"}, message.After(time.Hour)); err != nil {
		t.Fatal(err)
	}
	earlier := short()
	earlier.Prefix = b.Prefix + "-earlier"
	old, err := topology.New(earlier)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.client.HSet(t.Context(), "{"+earlier.Prefix+"}:layout", "version", "1", "shards", old.Shards()).Err(); err != nil {
		t.Fatal(err)
	}
	refused, err := redisbridge.NewClient(servertest.AsRedisUser(t, b.RedisURL, "nobody", "secret"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = refused.Close() })
	for name, tc := range map[string]struct {
		config redisbridge.ParkConfig
		want   string
	}{
		"another number of shards": {redisbridge.ParkConfig{Client: b.client, Topology: other}, "in use with shards 2, not 3"},
		"another layout":           {redisbridge.ParkConfig{Client: b.client, Topology: old}, "layout 1, not 6"},
		"wrong user":               {redisbridge.ParkConfig{Client: refused, Topology: b.topology}, "WRONGPASS"},
	} {
		park, err := redisbridge.NewPark(tc.config)
		if err != nil {
			t.Fatal(err)
		}
		_, err = park.Park(t.Context(), &message.Message{ID: "n", RoutingKey: "k"}, message.After(time.Hour))
		if !errors.Is(err, redisbridge.ErrConfiguration) || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want ErrConfiguration that says %q", name, err, tc.want)
		}
	}
}
