//go:build frameworks

// Package frameworks_test runs what docs/frameworks.md shows, with the frameworks themselves. They need
// programs that are on few machines, so they have a tag, and a target of the Makefile, of their own.
package frameworks_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/servers/rabbitmq"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

func TestMain(m *testing.M) { servertest.Main(m) }

const (
	// patience is for what has no reason to take long, on a machine that may have.
	patience = 2 * time.Minute
	// askAgain is how often a state is looked at that nobody tells of.
	askAgain = 50 * time.Millisecond
	// tier is the only one there is.
	tier = time.Second
)

// world is RabbitMQ and Redis with a bridge, and who sees each message come and go.
type world struct {
	env servertest.Env

	mu        sync.Mutex
	published map[string]sighting // by message ID: on its way into a tier or the inbox
	delivered map[string]sighting // out of the ready exchange
	changed   chan struct{}       // closed and replaced with each message
}

// sighting is a message, and where it was seen.
type sighting struct {
	amqp.Delivery
	tier bool // on its way into the tier, not the inbox
}

// newWorld has the names that the pages have, the default ones, so it has a Redis of its own.
func newWorld(t *testing.T, env servertest.Env) *world {
	t.Helper()
	w := &world{env: env, published: map[string]sighting{}, delivered: map[string]sighting{}, changed: make(chan struct{})}
	w.env.RedisURL = servertest.RedisForTest(t).URL()
	tiers, err := topology.New(topology.Config{Tiers: []time.Duration{tier}, Lead: tier})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := amqp.Dial(w.env.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if version, _ := conn.Properties["version"].(string); !strings.HasPrefix(version, "4.") {
		t.Fatalf("RabbitMQ is %s, want 4, which speaks AMQP 1.0: run `make images`, and set %s=%s and %s=delaybridge-ci/rabbitmq:4.3",
			version, servers.ChoiceVariable, servers.Containers, servers.RabbitMQImageVariable)
	}
	if _, err := tiers.Apply(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	// AMQP 1.0 has other means to declare a queue.
	bind(t, conn, "orders.amqp10", "order.amqp10")
	bind(t, conn, "types.amqp10", "types.amqp10")
	w.watch(t, conn, "delaybridge.entry", amqp.Table{"x-match": "all-with-x", "x-delay": tier.Milliseconds()}, func(d amqp.Delivery) { w.see(w.published, sighting{d, true}) })
	w.watch(t, conn, "delaybridge.inbox", nil, func(d amqp.Delivery) { w.see(w.published, sighting{d, false}) })
	w.watch(t, conn, "delaybridge.ready", nil, func(d amqp.Delivery) { w.see(w.delivered, sighting{Delivery: d}) })
	w.bridge(t, tiers)
	return w
}

// watch gets a copy of each message that an exchange is given, or of what a binding like the tier's takes.
func (w *world) watch(t *testing.T, conn *amqp.Connection, exchange string, binding amqp.Table, see func(amqp.Delivery)) {
	t.Helper()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	queue, err := ch.QueueDeclare("", false, false, true, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.QueueBind(queue.Name, "#", exchange, false, binding); err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.Consume(queue.Name, "", true, true, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for d := range deliveries {
			see(d)
		}
	}()
}

// see notes a message down. One that nobody gave an ID is known by the order in its body.
func (w *world) see(where map[string]sighting, s sighting) {
	id := s.MessageId
	if id == "" || strings.HasPrefix(id, "no-id.") {
		id = string(s.Body)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	where[id] = s
	close(w.changed)
	w.changed = make(chan struct{})
}

// await returns what was seen of a message.
func (w *world) await(t *testing.T, where map[string]sighting, id string) sighting {
	t.Helper()
	timeout := time.After(patience)
	for {
		w.mu.Lock()
		s, ok := where[id]
		changed := w.changed
		w.mu.Unlock()
		if ok {
			return s
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("message %q was not seen", id)
		}
	}
}

// bind makes a queue and binds it to the ready exchange.
func bind(t *testing.T, conn *amqp.Connection, queue, key string) {
	t.Helper()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	if err := ch.QueueBind(queue, key, "delaybridge.ready", false, nil); err != nil {
		t.Fatal(err)
	}
}

// bridge runs one until the test is over.
func (w *world) bridge(t *testing.T, tiers *topology.Topology) {
	t.Helper()
	b, err := redisbridge.New(redisbridge.Config{Client: servertest.OpenRedis(t, w.env.RedisURL), AMQPURL: w.env.AMQPURL, Topology: tiers, Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("bridge: %v", err)
		}
	})
}

// program is a command, and the folder it is run in.
type program struct {
	dir  string
	args []string
	env  []string
}

func (p program) with(args ...string) program {
	p.args = append(append([]string(nil), p.args...), args...)
	return p
}

func (w *world) command(ctx context.Context, t *testing.T, p program) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(ctx, p.args[0], p.args[1:]...)
	cmd.Dir = p.dir
	cmd.Env = append(append(os.Environ(), p.env...), "DELAYBRIDGE_AMQP_URL="+w.env.AMQPURL, "SHOP_CACHE="+t.TempDir(), "PYTHONDONTWRITEBYTECODE=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // with all that it starts
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// run waits for a program to end well.
func (w *world) run(t *testing.T, p program) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := w.command(ctx, t, p)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s%s", strings.Join(p.args, " "), err, out, complaints.Bytes())
	}
	return string(out)
}

// said is a line of a consumer's, and when it came at the latest.
type said struct {
	line string
	at   time.Time
}

// start runs a consumer until the test is over, and returns what it says.
func (w *world) start(t *testing.T, p program) <-chan said {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := w.command(ctx, t, p)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout // Celery sends there what its tasks print
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines, all := make(chan said, 1000), make(chan string, 1)
	go func() {
		defer close(lines)
		var text strings.Builder
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			text.WriteString(scanner.Text() + "\n")
			lines <- said{scanner.Text(), time.Now()}
		}
		all <- text.String()
	}()
	t.Cleanup(func() {
		cancel()
		text := <-all  // read before Wait closes the pipe
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("%s: %s", strings.Join(p.args, " "), text)
		}
	})
	return lines
}

// awaitBinding waits until a queue is bound to the ready exchange: what is due before goes to unrouted.
func (w *world) awaitBinding(t *testing.T, queue string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(askAgain) {
		answer, err := rabbitmq.Manage(t.Context(), w.env.ManagementURL, "GET", "/api/exchanges/"+w.env.VHost+"/delaybridge.ready/bindings/source", "")
		if err == nil && bytes.Contains(answer, fmt.Appendf(nil, "%q", queue)) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("queue %s is not bound: %s, %v", queue, answer, err)
		}
	}
}
