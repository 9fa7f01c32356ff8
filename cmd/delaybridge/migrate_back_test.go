package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/servers/rabbitmq"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

// mover is a service that moves from the plugin: its queue is consumed all the time.
type mover struct {
	*pluginLab
	*moved
	prefix string
}

// moved is what was published, and what has come of it.
type moved struct {
	mu   sync.Mutex
	due  map[string]time.Time // by ID
	came map[string][]time.Time
}

func newMover(t *testing.T, lab *pluginLab) *mover {
	t.Helper()
	env := servertest.ForTest(t)
	verifyAfter(t, env)
	s := &mover{pluginLab: lab, moved: &moved{due: map[string]time.Time{}, came: map[string][]time.Time{}}, prefix: env.Prefix}
	s.env["DELAYBRIDGE_REDIS_URL"], s.env["DELAYBRIDGE_PREFIX"] = env.RedisURL, env.Prefix
	s.env["DELAYBRIDGE_TIERS"], s.env["DELAYBRIDGE_LOG_LEVEL"] = "1s,2s", "error"
	s.exchange(t, "orders", "direct")
	s.queue(t, "unpaid", "orders", "order.unpaid", nil)
	s.consume(t)
	return s
}

func (s *mover) consume(t *testing.T) {
	t.Helper()
	deliveries, err := s.channel(t).ConsumeWithContext(t.Context(), "unpaid", "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for d := range deliveries {
			s.mu.Lock()
			s.came[d.MessageId] = append(s.came[d.MessageId], time.Now())
			s.mu.Unlock()
		}
	}()
}

func (s *mover) entry() string { return s.prefix + ".entry.orders" }
func (s *mover) ready() string { return s.prefix + ".ready.orders" }

// bridge runs a bridge until it is stopped.
func (s *mover) bridge(t *testing.T, args ...string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, append([]string{"bridge"}, args...), cli.Streams{Out: io.Discard, Err: io.Discard}, s.lookupEnv)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if code := <-ended; code != cli.ExitOK {
			t.Errorf("the bridge has ended with exit code %d", code)
		}
	})
	t.Cleanup(stop)
	return stop
}

// command runs one that is to succeed.
func (s *mover) command(t *testing.T, args ...string) {
	t.Helper()
	if code, stdout, stderr := runIn(t, s.env, args...); code != cli.ExitOK {
		t.Fatalf("%v: exit code %d: %s%s", args, code, stdout, stderr)
	}
}

// send publishes to each of the exchanges: what equals a tier, what has to be parked, and what is
// due at once.
func (s *mover) send(t *testing.T, step string, exchanges ...string) {
	t.Helper()
	ch := s.channel(t)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	for _, exchange := range exchanges {
		for _, delay := range []time.Duration{0, time.Second, 2500 * time.Millisecond} {
			id := fmt.Sprintf("%s, to %s, in %v", step, exchange, delay)
			s.mu.Lock()
			s.due[id] = time.Now().Add(delay)
			s.mu.Unlock()
			c, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), exchange, "order.unpaid", false, false, amqp.Publishing{
				MessageId: id, DeliveryMode: amqp.Persistent, Headers: amqp.Table{"x-delay": delay.Milliseconds()},
			})
			if err != nil || !c.Wait() {
				t.Fatalf("publish %s: %v", id, err)
			}
		}
	}
}

// arrives waits until all that was published has come.
func (s *mover) arrives(t *testing.T, step string) {
	t.Helper()
	var missing []string
	defer func() {
		if t.Failed() {
			t.Logf("missing: %q", missing)
		}
	}()
	awaitThat(t, step+": every message", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		missing = nil
		for id := range s.due {
			if len(s.came[id]) == 0 {
				missing = append(missing, id)
			}
		}
		return len(missing) == 0
	})
}

// cameOnce looks at what has come of all that was published.
func (s *mover) cameOnce(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.due)) {
		if n := len(s.came[id]); n != 1 {
			t.Errorf("%s: came %d times", id, n)
		}
		if at := s.came[id][0]; at.Before(s.due[id]) {
			t.Errorf("%s: came %v early", id, s.due[id].Sub(at))
		}
	}
}

func (s *mover) bind(t *testing.T, exchange string) {
	t.Helper()
	if err := s.channel(t).QueueBind("unpaid", "order.unpaid", exchange, false, nil); err != nil {
		t.Fatal(err)
	}
}

func (s *mover) unbind(t *testing.T, exchange string) {
	t.Helper()
	if err := s.channel(t).QueueUnbind("unpaid", "order.unpaid", exchange, nil); err != nil {
		t.Fatal(err)
	}
}

// old is what the broker has, apart from what is ours.
func (s *mover) old(t *testing.T) string {
	t.Helper()
	var old []string
	for _, x := range s.names(t, "exchanges") {
		if !strings.HasPrefix(x, s.prefix) && x != "" && !strings.HasPrefix(x, "amq.") {
			old = append(old, x)
		}
	}
	for _, b := range s.bindings(t) {
		if !strings.Contains(b, s.prefix) {
			old = append(old, b)
		}
	}
	return strings.Join(old, "\n")
}

// A migration goes forward and back at each step of docs/migration.md, while messages wait in the
// old place and in the new one: each of them comes once, and not before it is due.
func TestMigrationThereAndBack(t *testing.T) {
	t.Parallel()
	s := newMover(t, newPluginLab(t))
	s.statistics(t, "basic")
	const entries = "--entries=orders=direct"
	before := s.old(t)
	s.send(t, "before", "orders")

	// Step 2 creates the entry, which changes nothing for anybody.
	s.command(t, "migrate", "--apply")
	s.send(t, "applied", "orders")
	if after := s.old(t); after != before {
		t.Errorf("step 2 has left %s\nwant %s", after, before)
	}
	// Steps 3 to 5: bridges, the services' own bindings, publishers one after the other.
	stop := s.bridge(t, entries)
	s.bind(t, s.ready())
	s.send(t, "publishers switch", "orders", s.entry())

	// Back from step 5: what waits in the new place comes out of there.
	s.send(t, "publishers are back", "orders")
	// Back from step 4: once nothing waits there any more.
	s.arrives(t, "publishers are back")
	s.unbind(t, s.ready())
	// Back from step 3.
	stop()
	stop = s.bridge(t)
	s.send(t, "bridges are back", "orders")
	s.arrives(t, "bridges are back")

	// Forward again, and through. Step 6 waits for the old exchange, step 7 deletes it.
	s.command(t, "migrate", "--apply")
	stop()
	stop = s.bridge(t, entries)
	s.send(t, "the last of the old", "orders")
	s.send(t, "forward again", s.entry())
	s.command(t, "migrate", "status", "--watch", "--interval", "500ms", "--silent-for", "2s")
	export, err := rabbitmq.Manage(t.Context(), s.server.ManagementURL(), http.MethodGet, "/api/definitions", "")
	if err != nil {
		t.Fatal(err)
	}
	s.unbind(t, "orders")
	if err := s.channel(t).ExchangeDelete("orders", false, false); err != nil {
		t.Fatal(err)
	}
	s.send(t, "without the old exchange", s.entry())

	// Back from step 7, by the export from before it.
	if _, err := rabbitmq.Manage(t.Context(), s.server.ManagementURL(), http.MethodPost, "/api/definitions", string(export)); err != nil {
		t.Fatal(err)
	}
	s.send(t, "the old exchange is back", "orders", s.entry())

	// Back from all: the entry goes when its last message has come out.
	stop()
	stop = s.bridge(t)
	s.command(t, "topology", "prune", "--entry", "orders", "--wait", "1m")
	if after := s.old(t); after != before {
		t.Errorf("the way back has left %s\nwant %s", after, before)
	}
	if names := s.names(t, "exchanges"); slices.Contains(names, s.entry()) || slices.Contains(names, s.ready()) {
		t.Errorf("the entry is still there: %v", names)
	}
	s.send(t, "back at the start", "orders")
	s.arrives(t, "the end")
	stop()
	s.cameOnce(t)
}
