package delaybridge_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge"
	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/internal/defaults"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/producer"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// patience is for what has no reason to take long, on a machine that may have.
const patience = 60 * time.Second

// closing is the queue that tests and examples consume.
const closing = "closing"

// shop has a bridge, and is where clients are of use.
type shop struct {
	testing.TB
	config delaybridge.Config
}

func open(t testing.TB) *shop {
	t.Helper()
	return openAt(t, "")
}

// openAt is open with a Redis of the test's own, or the shared one where it has none.
func openAt(t testing.TB, redisURL string) *shop {
	t.Helper()
	env := servertest.ForTest(t)
	env.RedisURL = cmp.Or(redisURL, env.RedisURL)
	s := &shop{TB: t, config: delaybridge.Config{
		AMQPURL: env.AMQPURL, RedisURL: env.RedisURL,
		Topology: topology.Config{Prefix: env.Prefix, Tiers: []time.Duration{500 * time.Millisecond, time.Second}, Lead: time.Second, Shards: 2},
	}}
	client, err := redisbridge.NewClient(env.RedisURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	top, err := topology.New(s.config.Topology)
	if err != nil {
		t.Fatal(err)
	}
	bridge, err := redisbridge.New(redisbridge.Config{Client: client, AMQPURL: env.AMQPURL, Topology: top})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := amqp.Dial(env.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := top.Apply(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	s.run(bridge.Run)
	s.declareClosing(conn)
	return s
}

// declareClosing has a client declare and bind the queue that tests consume, so that nothing is
// due before it is there.
func (s *shop) declareClosing(conn *amqp.Connection) {
	s.Helper()
	client := s.client()
	err := client.Consume(delaybridge.ConsumerConfig{
		Queue: closing, Bind: []string{"order.*"}, Handler: delaybridge.HandlerFunc(func(context.Context, delaybridge.Message) error { return nil }),
	})
	if err != nil {
		s.Fatal(err)
	}
	defer s.run(client.Run)()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		ch, err := conn.Channel()
		if err != nil {
			s.Fatal(err)
		}
		q, err := ch.QueueDeclarePassive(closing, true, false, false, false, nil)
		_ = ch.Close() // it is closed already where there is no queue yet
		if err == nil && q.Consumers > 0 {
			return
		}
		if time.Now().After(deadline) {
			s.Fatalf("queue %s is not consumed: %v", closing, err)
		}
	}
}

// run runs something until the test is over, or until it is stopped.
func (s *shop) run(work func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- work(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				s.Error(err)
			}
		case <-time.After(patience):
			s.Error("it does not end")
		}
	})
	s.Cleanup(stop)
	return stop
}

func (s *shop) client() *delaybridge.Client {
	s.Helper()
	client, err := delaybridge.New(s.config)
	if err != nil {
		s.Fatal(err)
	}
	return client
}

// handled are the messages that a handler has been called for.
type handled chan message.Message

// next waits for a message.
func (h handled) next(t *testing.T) message.Message {
	t.Helper()
	select {
	case m := <-h:
		return m
	case <-time.After(patience):
		t.Fatal("no message has come")
		return message.Message{}
	}
}

func order(id string) delaybridge.Message {
	return delaybridge.Message{ID: id, RoutingKey: "order.unpaid", Body: []byte(id)}
}

// One client publishes, changes its mind, and handles what is due; retries go through Redis.
func TestClient(t *testing.T) {
	t.Parallel()
	s := open(t)
	client := s.client()
	came := make(handled, 10)
	if err := client.Consume(delaybridge.ConsumerConfig{
		Queue: closing, Bind: []string{"order.*"}, Retry: consumer.Retry{Base: 10 * time.Millisecond},
		Handler: delaybridge.HandlerFunc(func(_ context.Context, m delaybridge.Message) error {
			came <- m
			if m.Journey.Attempts == 0 {
				return errors.New("not this time")
			}
			return nil
		}),
	}); err != nil {
		t.Fatal(err)
	}
	stop := s.run(client.Run)
	for id, delay := range map[string]time.Duration{"due": 1200 * time.Millisecond, "cancelled": time.Hour, "moved": time.Hour} {
		if _, err := client.Publish(t.Context(), order(id), delaybridge.After(delay)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.Publish(t.Context(), order("moved"), delaybridge.At(time.Now().Add(2*time.Hour))); !errors.Is(err, producer.ErrConflict) {
		t.Errorf("another message with the ID of one that waits: %v", err)
	}
	if change, err := client.Cancel(t.Context(), "cancelled"); err != nil || change.Outcome != redisbridge.OutcomeDone {
		t.Errorf("cancel: %+v, %v", change, err)
	}
	if _, err := client.Publish(t.Context(), order("cancelled"), delaybridge.After(time.Hour)); !errors.Is(err, delaybridge.ErrCancelled) {
		t.Errorf("publish what was cancelled: %v", err)
	}
	if entry, err := client.Get(t.Context(), "cancelled"); err != nil || entry.State != redisbridge.StateCancelled {
		t.Errorf("get: %+v, %v", entry, err)
	}
	if _, err := client.Get(t.Context(), "nobody's"); !errors.Is(err, delaybridge.ErrNotFound) {
		t.Errorf("get what nobody has published: %v", err)
	}
	if change, err := client.Reschedule(t.Context(), "moved", delaybridge.After(0)); err != nil || change.Outcome != redisbridge.OutcomeDone {
		t.Errorf("reschedule: %+v, %v", change, err)
	}
	attempts := map[string][]message.Path{}
	for range 4 {
		m := came.next(t)
		attempts[m.ID] = append(attempts[m.ID], m.Journey.Path)
	}
	for _, id := range []string{"due", "moved"} {
		if paths := attempts[id]; len(paths) != 2 || paths[1] != wire.RetryPath {
			t.Errorf("%s came by %q, want the second attempt through Redis", id, paths)
		}
	}
	stop()
	if _, err := client.Publish(t.Context(), order("late"), delaybridge.After(0)); !errors.Is(err, producer.ErrNotSent) {
		t.Errorf("publish after the end: %v", err)
	}
	if len(came) > 0 {
		t.Errorf("%+v came, too", <-came)
	}
}

// Without Redis, what equals no tier goes through the inbox.
func TestClientWithoutRedis(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.config.RedisURL = ""
	client := s.client()
	came := make(handled, 10)
	if err := client.Consume(delaybridge.ConsumerConfig{
		Queue: closing, Bind: []string{"order.*"},
		Handler: delaybridge.HandlerFunc(func(_ context.Context, m delaybridge.Message) error {
			came <- m
			return nil
		}),
	}); err != nil {
		t.Fatal(err)
	}
	s.run(client.Run)
	receipt, err := client.Publish(t.Context(), order("o-1"), delaybridge.After(1200*time.Millisecond))
	if err != nil || receipt.Path != message.PathInbox {
		t.Fatalf("got %+v, %v", receipt, err)
	}
	if m := came.next(t); m.ID != "o-1" {
		t.Errorf("got %+v", m)
	}
	for what, err := range map[string]error{
		"cancel":     func() error { _, err := client.Cancel(t.Context(), "o-1"); return err }(),
		"reschedule": func() error { _, err := client.Reschedule(t.Context(), "o-1", delaybridge.After(0)); return err }(),
		"get":        func() error { _, err := client.Get(t.Context(), "o-1"); return err }(),
	} {
		if !errors.Is(err, delaybridge.ErrNoRedis) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A handler that is at work when Run is asked to end can publish what follows from it.
func TestHandlerPublishesAtTheEnd(t *testing.T) {
	t.Parallel()
	s := open(t)
	client := s.client()
	begun := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	published := make(chan error, 1)
	if err := client.Consume(delaybridge.ConsumerConfig{
		Queue: closing, Bind: []string{"order.*"},
		Handler: delaybridge.HandlerFunc(func(handling context.Context, _ delaybridge.Message) error {
			close(begun)
			<-ctx.Done()
			_, err := client.Publish(handling, delaybridge.Message{ID: "next", RoutingKey: "mail"}, delaybridge.After(0))
			published <- err
			return err
		}),
	}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- client.Run(ctx) }()
	if _, err := client.Publish(t.Context(), order("o-1"), delaybridge.After(0)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-begun:
	case <-time.After(patience):
		t.Fatal("the handler is not called")
	}
	stop()
	if err := errors.Join(<-published, <-ended); err != nil {
		t.Error(err)
	}
}

// Run ends, and says why, where a consumer cannot work.
func TestRunEndsWithAConsumer(t *testing.T) {
	t.Parallel()
	s := open(t)
	client := s.client()
	handler := delaybridge.HandlerFunc(func(context.Context, delaybridge.Message) error { return nil })
	if err := client.Consume(delaybridge.ConsumerConfig{Queue: "nobody's", Handler: handler}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := client.Run(ctx); !errors.Is(err, consumer.ErrNoQueue) || ctx.Err() != nil {
		t.Errorf("Run: %v", err)
	}
	if err := client.Run(ctx); err == nil {
		t.Error("Run again: no error")
	}
	if err := client.Consume(delaybridge.ConsumerConfig{Queue: "late", Handler: handler}); err == nil {
		t.Error("Consume after Run: no error")
	}
}

func TestNewNamesEveryFault(t *testing.T) {
	t.Parallel()
	_, err := delaybridge.New(delaybridge.Config{AMQPURL: "http://broker", RedisURL: "http://redis", Remember: -1})
	for _, want := range []string{"AMQP", "redis"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, which does not say %q", err, want)
		}
	}
	if _, err := delaybridge.New(delaybridge.Config{AMQPURL: "amqp://localhost", Topology: topology.Config{Shards: -1}}); err == nil {
		t.Error("no error for a wrong topology")
	}
	if _, err := delaybridge.New(delaybridge.Config{AMQPURL: "amqp://localhost", RedisURL: "redis://localhost", Remember: -1}); err == nil {
		t.Error("no error for a negative time")
	}
}

// A service and its bridges read the same settings.
func TestSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bridge.yaml")
	content := "amqp-url: amqp://shop:secret@rabbit/\ntiers: [1s, 30s]\nlead: 30s\nshards: 8\nentries: [audit=fanout]\ntombstones: 2d\n"
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DELAYBRIDGE_PREFIX", "shop")
	fromFile, err := delaybridge.LoadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("DELAYBRIDGE_CONFIG", path)
	fromEnv, err := delaybridge.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]delaybridge.Config{"the file": fromFile, "the environment": fromEnv} {
		if c.AMQPURL != "amqp://shop:secret@rabbit/" || c.RedisURL != "redis://localhost:6379/0" || c.Tombstones != 48*time.Hour || c.Remember != defaults.Remember {
			t.Errorf("%s: got %+v", name, c)
		}
		top, err := topology.New(c.Topology)
		if err != nil || top.Prefix() != "shop" || top.Shards() != 8 || len(top.Tiers()) != 2 || !slices.Equal(top.Leads(), []time.Duration{time.Second, 30 * time.Second}) || !top.HasEntry("audit") {
			t.Errorf("%s: got %+v, %v", name, c.Topology, err)
		}
	}
	if err := os.WriteFile(path, []byte("shard: 8\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := delaybridge.LoadFile(path); err == nil || !strings.Contains(err.Error(), `unknown key "shard"`) {
		t.Errorf("got %v", err)
	}
}

// URLs can be in files: their content is checked at the start, and files that others may read are
// warned of.
func TestURLsInFiles(t *testing.T) {
	directory := t.TempDir()
	write := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(directory, name)
		if err := errors.Join(os.WriteFile(path, []byte(content), 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("DELAYBRIDGE_AMQP_URL_FILE", write("amqp", "amqp://shop:s3cr3t@rabbit/\n", 0o600))
	t.Setenv("DELAYBRIDGE_REDIS_URL_FILE", write("redis", "redis://:s3cr3t@store\n", 0o644))
	c, err := delaybridge.FromEnv()
	if err != nil || c.AMQPURL != "file://"+filepath.Join(directory, "amqp") {
		t.Fatalf("got %+v, %v", c, err)
	}
	var said bytes.Buffer
	c.Logger = slog.New(slog.NewTextHandler(&said, nil))
	client, err := delaybridge.New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if text := said.String(); strings.Count(text, "others may read a file") != 1 || !strings.Contains(text, filepath.Join(directory, "redis")) || strings.Contains(text, "s3cr3t") {
		t.Errorf("said %q", text)
	}
	write("amqp", "s3cr3t", 0o600)
	write("redis", "redis://s3cr3t@store:port", 0o600)
	if _, err := delaybridge.New(c); err == nil || !strings.Contains(err.Error(), "wrong RabbitMQ URL: file://") || !strings.Contains(err.Error(), "wrong Redis configuration") || strings.Contains(err.Error(), "s3cr3t") {
		t.Errorf("got %v", err)
	}
}

// The examples of the documentation do what they say, on real servers.
func TestExamples(t *testing.T) {
	s := open(t)
	t.Setenv("DELAYBRIDGE_AMQP_URL", s.config.AMQPURL)
	t.Setenv("DELAYBRIDGE_REDIS_URL", s.config.RedisURL)
	t.Setenv("DELAYBRIDGE_PREFIX", s.config.Topology.Prefix)
	t.Setenv("DELAYBRIDGE_TIERS", "500ms,1s")
	t.Setenv("DELAYBRIDGE_LEAD", "1s")
	t.Setenv("DELAYBRIDGE_SHARDS", "2")
	for _, example := range []struct {
		run  func()
		want string
	}{
		{ExampleClient_Publish, "parked due in 30m0s\n"},
		{ExampleClient_Cancel, "done\n"},
		{ExampleClient_Get, "cancelled\n"},
		{ExampleClient_Consume, "closing order-2\n"},
	} {
		if got := servertest.Printed(t, example.run); got != example.want {
			t.Errorf("got %q, want %q", got, example.want)
		}
	}
}
