package examples_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge"
	ledger "github.com/delaybridge/delaybridge/consumer/ledger/postgres"
	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	outbox "github.com/delaybridge/delaybridge/producer/outbox/postgres"
	"github.com/delaybridge/delaybridge/topology"
)

// shop is one of the examples that are whole services, with a database of its own.
type shop struct {
	*testing.T
	env     servertest.Env
	db      *sql.DB
	environ []string
	command func(ctx context.Context, args ...string) *exec.Cmd
}

// run runs a command of the shop, and returns what it prints.
func (s *shop) run(args ...string) string {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	cmd := s.command(ctx, args...)
	cmd.Env = s.environ
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		s.Fatalf("%v: %v: %s", args, err, complaints.String())
	}
	return string(out)
}

// serve starts a process that closes orders, and returns what kills it.
func (s *shop) serve() (kill func()) {
	s.Helper()
	cmd := s.command(context.Background(), "serve")
	cmd.Env, cmd.Stderr = s.environ, os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "serving\n" {
		s.Fatalf("it said %q (%v)", line, err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	s.Cleanup(kill)
	return kill
}

// count returns how many orders a condition holds for.
func (s *shop) count(condition string) (n int) {
	s.Helper()
	if err := s.db.QueryRowContext(s.Context(), `SELECT count(*) FROM shop_orders WHERE `+condition).Scan(&n); err != nil {
		s.Fatal(err)
	}
	return n
}

// until waits for a state of the database.
func (s *shop) until(what string, reached func() bool) {
	s.Helper()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for deadline := time.After(patience); !reached(); {
		select {
		case <-look.C:
		case <-deadline:
			s.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// A shop in another language places and pays in its own transactions, is killed while it closes
// orders, and gets messages twice: each order is paid, or closed once.
func TestShopsInOtherLanguages(t *testing.T) {
	t.Parallel()
	if err := servers.EnsureClients(t.Context(), map[string]string{
		"python3-pika": "/usr/lib/python3/dist-packages/pika", "python3-psycopg2": "/usr/lib/python3/dist-packages/psycopg2",
		"nodejs": "node", "npm": "npm",
	}); err != nil {
		t.Fatal(err)
	}
	node := nodeFolder(t)
	for language, command := range map[string]func(context.Context, ...string) *exec.Cmd{
		"Python": func(ctx context.Context, args ...string) *exec.Cmd {
			return exec.CommandContext(ctx, "/usr/bin/python3", append([]string{"python/shop.py"}, args...)...)
		},
		"Node": func(ctx context.Context, args ...string) *exec.Cmd {
			cmd := exec.CommandContext(ctx, "node", append([]string{"shop.mjs"}, args...)...)
			cmd.Dir = node
			return cmd
		},
	} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			openShop(t, command).trade()
		})
	}
}

func openShop(t *testing.T, command func(context.Context, ...string) *exec.Cmd) *shop {
	t.Helper()
	url, env := servertest.PostgreSQL(t), servertest.ForTest(t)
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	box := outbox.New(pool)
	if err := box.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := ledger.New(pool).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx", url)
	if err == nil {
		_, err = db.ExecContext(t.Context(), `CREATE TABLE shop_orders (id text PRIMARY KEY, state text NOT NULL, closings integer NOT NULL DEFAULT 0)`)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	described := topology.Config{Prefix: env.Prefix, Tiers: []time.Duration{time.Second}, Lead: time.Second}
	tiers, err := topology.New(described)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, env, tiers)
	bridge(t, env, tiers)
	relay(t, env, described, box)
	return &shop{T: t, env: env, db: db, command: command, environ: append(os.Environ(),
		"DELAYBRIDGE_AMQP_URL="+env.AMQPURL, "DELAYBRIDGE_PREFIX="+env.Prefix, "DATABASE_URL="+url)}
}

// relay sends the rows of an outbox until the test is over.
func relay(t *testing.T, env servertest.Env, described topology.Config, box *outbox.Outbox) {
	t.Helper()
	client, err := delaybridge.New(delaybridge.Config{AMQPURL: env.AMQPURL, RedisURL: env.RedisURL, Topology: described})
	if err == nil {
		err = client.Relay(box)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- client.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("relay: %v", err)
		}
	})
}

func (s *shop) trade() {
	const n = 8 // each command is a process
	s.serve()() // which declares the queue
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { s.run("place", fmt.Sprint("closed-", i), "3000") })
	}
	s.run("place", "paid", "600000")
	s.run("place", "cancelled", "600000")
	all.Wait()
	s.run("pay", "paid")
	s.awaitSent()
	if answer := s.run("cancel", "cancelled"); !strings.Contains(answer, `"outcome":"cancelled"`) {
		s.Errorf("cancel was answered with %s", answer)
	}
	if answer := s.run("cancel", "paid"); !strings.Contains(answer, `"outcome":"cancelled before"`) {
		s.Errorf("cancel of what is paid was answered with %s", answer)
	}
	kill := s.serve()
	s.until("an order is closed", func() bool { return s.count("state = 'closed'") > 0 })
	kill() // in the middle
	s.repeat("closed-0", "closed-1", "paid")
	s.serve()
	s.until("all orders are closed", func() bool { return s.count("state = 'closed'") == n })
	if n := s.count("closings <> (CASE state WHEN 'closed' THEN 1 ELSE 0 END)"); n > 0 {
		s.Errorf("%d orders are closed twice, or not where they should be", n)
	}
	if s.count("id = 'paid' AND state = 'paid'") != 1 || s.count("id = 'cancelled' AND state = 'placed'") != 1 {
		s.Error("what was paid or cancelled is something else by now")
	}
}

// awaitSent waits until the relay has sent all rows.
func (s *shop) awaitSent() {
	s.Helper()
	s.until("all rows are sent", func() bool {
		var rows int
		if err := s.db.QueryRowContext(s.Context(), `SELECT count(*) FROM delaybridge_outbox`).Scan(&rows); err != nil {
			s.Fatal(err)
		}
		return rows == 0
	})
}

// repeat has messages come once more.
func (s *shop) repeat(orders ...string) {
	s.Helper()
	conn, err := amqp.Dial(s.env.AMQPURL)
	if err != nil {
		s.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	if err != nil {
		s.Fatal(err)
	}
	for _, order := range orders {
		confirmed, err := ch.PublishWithDeferredConfirm(s.env.Prefix+".ready", "order.shop", true, false, amqp.Publishing{MessageId: order, DeliveryMode: amqp.Persistent})
		if err != nil || !confirmed.Wait() {
			s.Fatalf("repeat %s: %v", order, err)
		}
	}
}
