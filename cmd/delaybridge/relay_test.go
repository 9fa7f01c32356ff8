package main

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/producer/outbox/postgres"
	"github.com/delaybridge/delaybridge/topology"
)

// Relays that are killed with rows in their hands leave them to the next one.
func TestKilledRelaysLoseNothing(t *testing.T) {
	t.Parallel()
	const rows, kills = 3000, 5
	vars, url := scriptEnv(t), servertest.PostgreSQL(t)
	db := fullOutbox(t, url, rows)
	queue := queueForAll(t, vars["DELAYBRIDGE_AMQP_URL"], vars["DELAYBRIDGE_PREFIX"])
	left := func() (n int) {
		if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM delaybridge_outbox`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for range kills {
		began := left()
		kill := startRelay(t, vars, url)
		await(t, "the relay sends something", func() bool { return began == 0 || left() < began })
		kill()
	}
	startRelay(t, vars, url)
	await(t, "all rows are sent", func() bool { return left() == 0 })
	seen := map[string]bool{}
	for {
		d, ok, err := queue.Get("everything", true)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		seen[d.MessageId] = true
	}
	if len(seen) != rows {
		t.Errorf("%d of %d messages came", len(seen), rows)
	}
}

// fullOutbox is a database with rows that are due at once.
func fullOutbox(t *testing.T, url string, rows int) *sql.DB {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := postgres.New(pool).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.ExecContext(t.Context(), fmt.Sprintf(`INSERT INTO delaybridge_outbox (message_id, routing_key)
		SELECT 'm-' || n, 'order.unpaid' FROM generate_series(1, %d) n`, rows)); err != nil {
		t.Fatal(err)
	}
	return db
}

// queueForAll declares the topology, and a queue that gets all that is ready.
func queueForAll(t *testing.T, amqpURL, prefix string) *amqp.Channel {
	t.Helper()
	top, err := topology.New(topology.Config{Prefix: prefix, Tiers: []time.Duration{time.Second, 30 * time.Second}, Lead: time.Second, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := amqp.Dial(amqpURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := top.Apply(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	ch, err := conn.Channel()
	if err == nil {
		_, err = ch.QueueDeclare("everything", true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
	}
	if err == nil {
		err = ch.QueueBind("everything", "#", top.ReadyExchange(), false, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

func startRelay(t *testing.T, vars map[string]string, url string) (kill func()) {
	t.Helper()
	cmd := exec.Command(filepath.Join(program(t), "delaybridge"), "relay", "--database-url", url)
	cmd.Env = os.Environ()
	for name, value := range vars {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Cleanup(kill)
	return kill
}
