package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/topology"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// patience is for what has no reason to take long, on a machine that may have.
const patience = 2 * time.Minute

// applied declares the topology of a test, and returns it with a channel to the broker.
func applied(t *testing.T, env servertest.Env) (*topology.Topology, testChannel) {
	t.Helper()
	tiers, err := topology.New(topology.Config{Prefix: env.Prefix, Tiers: []time.Duration{time.Second}, Lead: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ch := channel(t, env.AMQPURL)
	if _, err := tiers.Apply(t.Context(), ch.conn); err != nil {
		t.Fatal(err)
	}
	return tiers, ch
}

// Each message comes at least twice: from its publisher, and, where a loop ends in the
// middle of it, from the broker. Each is one reminder.
func TestOneReminderForEachMessage(t *testing.T) {
	t.Parallel()
	const messages = 200
	env := servertest.ForTest(t)
	tiers, ch := applied(t, env)
	db, err := sql.Open("mysql", servertest.MariaDB(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	r := newReminders(db)
	if err := r.migrate(t.Context()); err != nil {
		t.Fatal(err)
	}

	var handled atomic.Int64
	l := &loop{
		url: env.AMQPURL, exchange: tiers.ReadyExchange(), quarantine: tiers.Quarantine(), ping: db.PingContext, pause: time.Second,
		handle: func(ctx context.Context, d *amqp.Delivery) (bool, error) {
			first, err := r.write(ctx, d)
			if err == nil {
				handled.Add(1)
			}
			return first, err
		},
		log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if _, err := l.subscribe(ch.Channel); err != nil { // so that there is a queue
		t.Fatal(err)
	}
	ch.close()

	started(t, l)
	interrupted := started(t, l)
	publisher := channel(t, env.AMQPURL)
	for n := range 2 * messages {
		publisher.delayed(t, tiers.EntryExchange(), fmt.Sprintf("m-%d", n/2))
	}
	awaitReminders(t, r, messages/4)
	interrupted()
	started(t, l)
	awaitReminders(t, r, messages)
	await(t, func() (bool, string) {
		n := handled.Load()
		return n >= 2*messages, fmt.Sprintf("%d deliveries handled, want at least %d", n, 2*messages)
	})

	for n := range messages {
		var reminders int
		id := fmt.Sprintf("m-%d", n)
		if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM reminders WHERE message = ?`, id).Scan(&reminders); err != nil {
			t.Fatal(err)
		}
		if reminders != 1 {
			t.Errorf("%d reminders for %s, want 1", reminders, id)
		}
	}
}

// What fails is neither lost nor tried for ever: poison is quarantined, once, and a database
// that is away for longer than any number of attempts costs a message one more delivery.
func TestFailuresNeitherLoseNorLoop(t *testing.T) {
	t.Parallel()
	const messages = 20
	env := servertest.ForTest(t)
	tiers, ch := applied(t, env)
	var mu sync.Mutex
	var pings int
	away, tried, handled := true, map[string]int{}, map[string]int{}
	errAway := errors.New("the database is away")
	l := &loop{
		url: env.AMQPURL, exchange: tiers.ReadyExchange(), quarantine: tiers.Quarantine(), pause: 10 * time.Millisecond,
		ping: func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			if pings++; away && len(tried) > 0 { // it goes away while messages are handled
				return errAway
			}
			return nil
		},
		handle: func(_ context.Context, d *amqp.Delivery) (bool, error) {
			mu.Lock()
			defer mu.Unlock()
			tried[d.MessageId]++
			switch {
			case away:
				return false, errAway
			case d.MessageId == "m-0":
				return false, errors.New("poison")
			}
			handled[d.MessageId]++
			return true, nil
		},
		log: slog.New(slog.DiscardHandler),
	}
	if _, err := l.subscribe(ch.Channel); err != nil { // so that there is a queue
		t.Fatal(err)
	}
	ch.close()
	ch = channel(t, env.AMQPURL)
	for n := range messages {
		ch.delayed(t, tiers.EntryExchange(), fmt.Sprintf("m-%d", n))
	}
	started(t, l)
	await(t, func() (bool, string) { // for longer than a delivery limit
		mu.Lock()
		defer mu.Unlock()
		return pings > 50, fmt.Sprintf("asked %d times for the database", pings)
	})
	mu.Lock()
	for id, n := range tried {
		if n > 1 {
			t.Errorf("%s was delivered %d times while the database is away", id, n)
		}
	}
	away = false
	mu.Unlock()
	await(t, func() (bool, string) {
		mu.Lock()
		defer mu.Unlock()
		return len(handled) == messages-1, fmt.Sprintf("%d messages handled, want %d", len(handled), messages-1)
	})
	for queue, want := range map[string]int{tiers.Quarantine(): 1, queue: 0} {
		await(t, func() (bool, string) {
			q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
			if err != nil {
				t.Fatal(err)
			}
			return q.Messages == want, fmt.Sprintf("%s has %d messages, want %d", queue, q.Messages, want)
		})
	}
	if d, ok, err := ch.Get(tiers.Quarantine(), true); err != nil || !ok || d.MessageId != "m-0" {
		t.Errorf("in quarantine is %q (%t, %v)", d.MessageId, ok, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if n := tried["m-0"]; n < attempts || n > attempts+1 {
		t.Errorf("poison was tried %d times, want %d, and once while the database was away", n, attempts)
	}
}

// started runs a loop until it is stopped or the test is over.
func started(t *testing.T, l *loop) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := l.run(ctx); err != nil {
			t.Error(err)
		}
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	return stop
}

// testChannel is a channel on a connection of its own.
type testChannel struct {
	*amqp.Channel
	conn *amqp.Connection
}

func channel(t *testing.T, url string) testChannel {
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
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	return testChannel{ch, conn}
}

func (c testChannel) close() { _ = c.conn.Close() }

// delayed publishes a message as any client does.
func (c testChannel) delayed(t *testing.T, exchange, id string) {
	t.Helper()
	confirmed, err := c.PublishWithDeferredConfirm(exchange, "reminder.mail", false, false, amqp.Publishing{
		MessageId: id, DeliveryMode: amqp.Persistent, Headers: amqp.Table{"x-delay": int64(1000)}, Body: []byte("remember"),
	})
	if err != nil || !confirmed.Wait() {
		t.Fatalf("%s was not taken: %v", id, err)
	}
}

// awaitReminders waits until there are so many.
func awaitReminders(t *testing.T, r *reminders, want int) {
	t.Helper()
	await(t, func() (bool, string) {
		var n int
		if err := r.db.QueryRowContext(t.Context(), `SELECT count(*) FROM reminders`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n >= want, fmt.Sprintf("%d reminders, want %d", n, want)
	})
}

// await waits for a state.
func await(t *testing.T, reached func() (bool, string)) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, state := reached()
		if ok {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("after %v: %s", patience, state)
		case <-tick.C:
		}
	}
}
