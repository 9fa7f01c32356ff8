package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/consumer/orders/postgres"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// payWithin is the delay of the test's only tier.
const payWithin = time.Second

// world is all that the shop needs, and the shop.
type world struct {
	testing.TB
	env      servertest.Env
	database string
	topology *topology.Topology
	url      string // of the shop

	mu       sync.Mutex
	outcomes map[consumer.Outcome]int
}

// newWorld has a topology and a bridge, and no shop yet.
func newWorld(t *testing.T) *world {
	t.Helper()
	env := servertest.ForTest(t)
	tiers, err := topology.New(topology.Config{Prefix: env.Prefix, Tiers: []time.Duration{payWithin}, Lead: payWithin})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := amqp.Dial(env.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := tiers.Apply(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	client := servertest.OpenRedis(t, env.RedisURL)
	park, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: client, Topology: tiers})
	if err != nil {
		t.Fatal(err)
	}
	servertest.VerifyAfter(t, park)
	bridge, err := redisbridge.New(redisbridge.Config{Client: client, AMQPURL: env.AMQPURL, Topology: tiers, Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{TB: t, env: env, database: servertest.PostgreSQL(t), topology: tiers, outcomes: map[consumer.Outcome]int{}}
	w.untilTheEnd(bridge.Run)
	return w
}

// untilTheEnd runs something until the test is over.
func (w *world) untilTheEnd(run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	w.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			w.Error(err)
		}
	})
}

// open opens the shop.
func (w *world) open() {
	w.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.Fatal(err)
	}
	w.url = "http://" + listener.Addr().String()
	w.untilTheEnd(func(ctx context.Context) error {
		return serve(ctx, config{
			amqpURL: w.env.AMQPURL, databaseURL: w.database, topology: w.topology, listener: listener, payWithin: payWithin,
			observe: func(o consumer.Observation) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.outcomes[o.Outcome]++
			},
			log: slog.New(slog.NewTextHandler(w.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
		})
	})
}

// outcome says how many messages have ended so.
func (w *world) outcome(o consumer.Outcome) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.outcomes[o]
}

// openStore opens the shop's database behind its back.
func (w *world) openStore() *postgres.Store {
	w.Helper()
	pool, err := pgxpool.New(w.Context(), w.database)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(pool.Close)
	s := postgres.New(pool)
	if err := s.Migrate(w.Context()); err != nil {
		w.Fatal(err)
	}
	return s
}

func (w *world) post(want int, path, body string) {
	w.Helper()
	answer, err := http.Post(w.url+path, "application/json", strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != want {
		w.Errorf("POST %s %s: %s, want %d", path, body, answer.Status, want)
	}
}

func (w *world) get(id string) (o order) {
	w.Helper()
	answer, err := http.Get(w.url + "/orders/" + id)
	if err != nil {
		w.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&o); err != nil {
		w.Fatal(err)
	}
	return o
}

// deliver has messages come that are due, as the broker does after a lost
// acknowledgement.
func (w *world) deliver(ids ...string) {
	w.Helper()
	conn, err := amqp.Dial(w.env.AMQPURL)
	if err != nil {
		w.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		w.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		w.Fatal(err)
	}
	for _, id := range ids {
		m := message.Message{ID: id}
		confirmed, err := ch.PublishWithDeferredConfirm(w.topology.ReadyExchange(), routingKey, true, false, m.Publishing(message.Journey{}))
		if err != nil || !confirmed.Wait() {
			w.Fatalf("%s was not taken: %v", id, err)
		}
	}
}

// await waits for a state.
func (w *world) await(what string, reached func() bool) {
	w.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !reached() {
		select {
		case <-deadline:
			w.Fatalf("after %v: not yet: %s", patience, what)
		case <-tick.C:
		}
	}
}
