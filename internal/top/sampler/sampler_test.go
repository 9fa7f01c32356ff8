package sampler_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/internal/top"
	"github.com/delaybridge/delaybridge/internal/top/sampler"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// interval is short, so that tests are.
const interval = 200 * time.Millisecond

// stage is a topology on real servers, and what is seen of it.
type stage struct {
	env  servertest.Env
	all  *topology.Topology
	park *redisbridge.Park

	mu   sync.Mutex
	book *top.Book
}

func newStage(t *testing.T, env servertest.Env) *stage {
	t.Helper()
	all, err := topology.New(topology.Config{
		Prefix: env.Prefix, Tiers: []time.Duration{time.Second, 30 * time.Second}, Lead: time.Second, Shards: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := amqp.Dial(env.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := all.Apply(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	s := &stage{env: env, all: all, book: top.NewBook(all, time.Now())}
	s.park = newPark(t, env, all)
	servertest.VerifyAfter(t, s.park)
	return s
}

func newPark(t *testing.T, env servertest.Env, all *topology.Topology) *redisbridge.Park {
	t.Helper()
	client, err := redisbridge.NewClient(env.RedisURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	park, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: client, Topology: all})
	if err != nil {
		t.Fatal(err)
	}
	return park
}

// watch has a sampler look until the test is over.
func (s *stage) watch(t *testing.T) *sampler.Sampler {
	t.Helper()
	management, err := topology.NewManagement(s.env.ManagementURL, s.env.VHost)
	if err != nil {
		t.Fatal(err)
	}
	looking := sampler.New(sampler.Config{
		Park: newPark(t, s.env, s.all), Topology: s.all, AMQPURL: s.env.AMQPURL, Management: management, Interval: interval,
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- looking.Run(ctx, s.take) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("sampler: %v", err)
		}
	})
	return looking
}

func (s *stage) take(l top.Look) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.book.Take(l)
}

func (s *stage) picture() top.Picture {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.book.Picture(time.Now())
}

// awaitPicture returns once there is one as wanted.
func (s *stage) awaitPicture(t *testing.T, what string, wanted func(top.Picture) bool) top.Picture {
	t.Helper()
	const patience = 90 * time.Second
	for began := time.Now(); ; <-time.After(50 * time.Millisecond) {
		p := s.picture()
		if wanted(p) {
			return p
		}
		if time.Since(began) > patience {
			text, _ := top.Render(&p, top.Screen{Once: true})
			t.Fatalf("%s: not within %v\n%s\n%+v %+v", what, patience, text, p.Redis, p.RabbitMQ)
		}
	}
}

// bridge runs one until stop is called.
func (s *stage) bridge(t *testing.T) (stop func()) {
	t.Helper()
	client, err := redisbridge.NewClient(s.env.RedisURL)
	if err != nil {
		t.Fatal(err)
	}
	b, err := redisbridge.New(redisbridge.Config{Client: client, AMQPURL: s.env.AMQPURL, Topology: s.all, Name: "alpha"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("bridge: %v", err)
			}
			_ = client.Close()
		})
	}
	t.Cleanup(stop)
	return stop
}

// load parks messages, and publishes into the tier of 30 s, until ctx ends.
func (s *stage) load(t *testing.T) {
	t.Helper()
	conn, err := amqp.Dial(s.env.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var loading sync.WaitGroup
	loading.Go(func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			delay := 3 * time.Second
			if n%2 == 0 {
				delay = time.Hour
			}
			m := &message.Message{ID: fmt.Sprint("m-", n), RoutingKey: "order.unpaid"}
			_, _ = s.park.Park(ctx, m, message.After(delay)) // fails while Redis is away
			_ = ch.PublishWithContext(ctx, s.all.EntryExchange(), "order.unpaid", false, false,
				amqp.Publishing{Headers: amqp.Table{"x-delay": int64(30_000)}})
			select {
			case <-ctx.Done():
			case <-ticker.C:
			}
		}
	})
	t.Cleanup(func() {
		stop()
		_ = conn.Close()
		loading.Wait()
	})
}

func has(kind string) func(top.Picture) bool {
	return func(p top.Picture) bool {
		return slices.ContainsFunc(p.Problems, func(problem top.Problem) bool { return problem.Kind == kind })
	}
}

// Under load there are figures of everything; without a bridge it says so, and what is
// overdue; and when one is back, all is well again.
func TestBridgeUnderLoadComesAndGoes(t *testing.T) {
	t.Parallel()
	s := newStage(t, servertest.ForTest(t))
	stop := s.bridge(t)
	s.watch(t)
	s.load(t)
	// Nobody has bound a queue, so that what is due ends in unrouted.
	p := s.awaitPicture(t, "figures of everything", func(p top.Picture) bool {
		if len(p.Rows) != 3 || len(p.Shards) != 2 || len(p.Bridges) != 1 {
			return false
		}
		tier := p.Rows[2].Tier
		return p.Parked > 0 && p.In.PerSecond > 0 && p.Out.PerSecond > 0 && *tier.Messages > 0 && tier.In.PerSecond > 0 &&
			p.Rows[1].Lane.In.PerSecond > 0 && p.Rows[1].Lane.Out.PerSecond > 0 && p.Bridges[0].SettledPerSecond > 0 &&
			p.Bridges[0].PromotionLate.Messages > 0 && !p.NextDue.IsZero()
	})
	if p.Bridges[0].Name != "alpha" || !slices.Equal(p.Bridges[0].Shards, []int{0, 1}) || p.Shards[0].Owner != p.Bridges[0].ID {
		t.Errorf("bridge %+v, and the first shard is %+v", p.Bridges[0], p.Shards[0])
	}
	s.awaitPicture(t, "what nobody has bound", has("unrouted"))
	stop()
	s.awaitPicture(t, "no bridge", has("no bridge"))
	late := s.awaitPicture(t, "something overdue", has("overdue"))
	if late.OldestLate.IsZero() || late.Shards[0].Owner != "" {
		t.Errorf("overdue since %v, and the first shard's owner is %q", late.OldestLate, late.Shards[0].Owner)
	}
	s.bridge(t)
	s.awaitPicture(t, "all is well again", func(p top.Picture) bool { return !has("no bridge")(p) && !has("overdue")(p) })
}

// While Redis stands still the last picture of it stays, with a word about that; and it
// goes on by itself.
func TestRedisGoesAwayAndComesBack(t *testing.T) {
	t.Parallel()
	store := servertest.RedisForTest(t, servers.Single)
	env := servertest.ForTest(t)
	env.RedisURL = store.URL()
	s := newStage(t, env)
	for n := range 5 {
		m := &message.Message{ID: fmt.Sprint("m-", n), RoutingKey: "order.unpaid"}
		if _, err := s.park.Park(t.Context(), m, message.After(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	s.watch(t)
	five := func(p top.Picture) bool { return p.Parked == 5 && !p.Redis.IsAway() }
	s.awaitPicture(t, "five are parked", five)
	for _, away := range []struct {
		what       string
		begin, end func(context.Context) error
	}{
		{"stopped", store.Nodes()[0].Pause, store.Nodes()[0].Resume},
		{"killed", store.Kill, store.Restart},
	} {
		if err := away.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		p := s.awaitPicture(t, away.what, has("away: Redis"))
		if p.Parked != 5 || p.RabbitMQ.IsAway() || p.Redis.Error == "" {
			t.Errorf("%s: %d parked, RabbitMQ %+v, Redis %+v", away.what, p.Parked, p.RabbitMQ, p.Redis)
		}
		if err := away.end(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.awaitPicture(t, away.what+" and back", five)
	}
}

// RabbitMQ closes the connection; the next look makes another one. Nothing is asked while
// looking is paused.
func TestConnectionIsMadeAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t, servertest.ForTest(t))
	looking := s.watch(t)
	s.awaitPicture(t, "RabbitMQ answers", func(p top.Picture) bool { return p.Inbox.Messages != nil })
	closed := time.Now()
	s.closeConnections(t)
	s.awaitPicture(t, "RabbitMQ answers again", func(p top.Picture) bool { return p.RabbitMQ.Answered.After(closed.Add(time.Second)) })
	looking.Pause(true)
	// Questions that are under way are answered, and then there are no more.
	var last top.Picture
	s.awaitPicture(t, "pause", func(p top.Picture) bool {
		quiet := p.Redis.Answered.Equal(last.Redis.Answered) && p.At.Sub(p.Redis.Answered) > 5*interval
		last = p
		return quiet
	})
	looking.Pause(false)
	s.awaitPicture(t, "going on", func(p top.Picture) bool { return p.Redis.Answered.After(last.Redis.Answered) })
}

// closeConnections closes the sampler's, once the management plugin knows of it.
func (s *stage) closeConnections(t *testing.T) {
	t.Helper()
	for began := time.Now(); time.Since(began) < 30*time.Second; <-time.After(200 * time.Millisecond) {
		var found []struct {
			Name       string `json:"name"`
			Properties struct {
				Name string `json:"connection_name"`
			} `json:"client_properties"`
		}
		if err := json.Unmarshal(s.env.Manage(t, http.MethodGet, "/api/vhosts/"+s.env.VHost+"/connections", ""), &found); err != nil {
			t.Fatal(err)
		}
		for _, c := range found {
			if c.Properties.Name == "delaybridge top" {
				s.env.Manage(t, http.MethodDelete, "/api/connections/"+url.PathEscape(c.Name), "")
				return
			}
		}
	}
	t.Fatal("the management API does not know the connection")
}

// A wrong setting ends it at once: nobody will see anything.
func TestWrongConfigurationEndsIt(t *testing.T) {
	t.Parallel()
	s := newStage(t, servertest.ForTest(t))
	other, err := topology.New(topology.Config{Prefix: s.env.Prefix, Shards: 3})
	if err != nil {
		t.Fatal(err)
	}
	management, err := topology.NewManagement(s.env.ManagementURL, s.env.VHost)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.park.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	wrong := sampler.New(sampler.Config{
		Park: newPark(t, s.env, other), Topology: other, AMQPURL: s.env.AMQPURL, Management: management, Interval: interval,
	})
	if err := wrong.Run(t.Context(), func(top.Look) {}); err == nil || !strings.Contains(err.Error(), "shards 2, not 3") {
		t.Errorf("it ends with %v", err)
	}
}

// One picture has what the servers have answered, and names the one that does not, though
// it stands still.
func TestOnceDoesNotWaitForWhoIsSilent(t *testing.T) {
	t.Parallel()
	env := servertest.ForTest(t)
	store := servertest.RedisForTest(t, servers.Single)
	env.RedisURL = store.URL()
	s := newStage(t, env)
	management, err := topology.NewManagement(s.env.ManagementURL, s.env.VHost)
	if err != nil {
		t.Fatal(err)
	}
	looking := sampler.New(sampler.Config{Park: newPark(t, s.env, s.all), Topology: s.all, AMQPURL: s.env.AMQPURL, Management: management, Interval: interval})
	defer looking.Close()
	looking.Once(t.Context(), s.take)
	if p := s.picture(); p.Redis.IsAway() || p.RabbitMQ.IsAway() {
		t.Fatalf("Redis %+v, RabbitMQ %+v", p.Redis, p.RabbitMQ)
	}
	if err := store.Nodes()[0].Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Nodes()[0].Resume(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	began := time.Now()
	looking.Once(t.Context(), s.take)
	if p := s.picture(); !p.Redis.IsAway() || p.RabbitMQ.IsAway() || !has("away: Redis")(p) {
		t.Errorf("Redis %+v, RabbitMQ %+v", p.Redis, p.RabbitMQ)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the picture took %v", took)
	}
}
