package main

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/servers/rabbitmq"
)

// brokers starts two nodes: the old one from packages, so that it is a RabbitMQ that the plugin ran on,
// and a new one as the environment says.
func brokers(t *testing.T) (blue, green *rabbitmq.Node) {
	t.Helper()
	type started struct {
		server *rabbitmq.Node
		err    error
	}
	begin := func(c servers.Config) chan started {
		ready := make(chan started, 1)
		go func() {
			server, err := servers.StartRabbitMQ(t.Context(), c)
			ready <- started{server, err}
		}()
		return ready
	}
	running := []chan started{begin(servers.Config{Choice: servers.Packages}), begin(servers.Config{})}
	var all []*rabbitmq.Node
	for _, ready := range running {
		s := <-ready
		if s.err != nil {
			t.Errorf("no RabbitMQ for this test: %v", s.err)
			continue
		}
		t.Cleanup(func() {
			if err := s.server.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		})
		all = append(all, s.server)
	}
	if len(all) < len(running) {
		t.FailNow()
	}
	return all[0], all[1]
}

// onto returns the service on another broker, to which nothing of the plugin was brought.
func (s *mover) onto(t *testing.T, server *rabbitmq.Node) *mover {
	t.Helper()
	conn, err := amqp.Dial(server.AMQPURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	there := &mover{pluginLab: &pluginLab{server: server, conn: conn, env: maps.Clone(s.env)}, moved: s.moved, prefix: s.prefix}
	there.env["DELAYBRIDGE_AMQP_URL"], there.env["DELAYBRIDGE_MANAGEMENT_URL"] = server.AMQPURL(), server.ManagementURL()
	return there
}

// holds is how many messages wait, by `delaybridge stats`, and in the service's queue.
func (s *mover) holds(t *testing.T) int {
	t.Helper()
	code, stdout, stderr := runIn(t, s.env, "stats", "-o", "json", "--entries=orders=direct")
	type messages []struct {
		Messages int `json:"messages"`
	}
	var counted struct {
		Redis struct {
			Parked    int `json:"parked"`
			Promoting int `json:"promoting"`
			InLane    int `json:"in_lane"`
		} `json:"redis"`
		RabbitMQ struct {
			Tiers      messages `json:"tiers"`
			Lanes      messages `json:"lanes"`
			NotTaken   *int     `json:"not_taken"`
			Inbox      *int     `json:"inbox"`
			Unrouted   *int     `json:"unrouted"`
			Quarantine *int     `json:"quarantine"`
		} `json:"rabbitmq"`
	}
	if err := json.Unmarshal([]byte(stdout), &counted); code != cli.ExitOK || err != nil {
		t.Fatalf("stats: exit code %d, %v: %s", code, err, stderr)
	}
	waiting := counted.Redis.Parked + counted.Redis.Promoting + counted.Redis.InLane
	for _, q := range slices.Concat(counted.RabbitMQ.Tiers, counted.RabbitMQ.Lanes) {
		waiting += q.Messages
	}
	for _, n := range []*int{counted.RabbitMQ.Inbox, counted.RabbitMQ.Unrouted, counted.RabbitMQ.Quarantine, counted.RabbitMQ.NotTaken} {
		if n != nil {
			waiting += *n
		}
	}
	queue, err := s.channel(t).QueueDeclarePassive("unpaid", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return waiting + queue.Messages
}

// Services move to a new broker that has no plugin, and back, by the steps of docs/migration.md, while
// messages wait on both: each of them comes once, and not before it is due.
func TestMigrationToANewBrokerAndBack(t *testing.T) {
	t.Parallel()
	blue, green := brokers(t)
	old := newMover(t, pluginLabOn(t, blue))
	old.statistics(t, "basic")
	anew := old.onto(t, green)
	before := old.old(t)
	old.send(t, "before", "orders")

	// Steps 1 to 3.
	exported, err := rabbitmq.Manage(t.Context(), blue.ManagementURL(), http.MethodGet, "/api/definitions", "")
	definitions, rest := filepath.Join(t.TempDir(), "old.json"), filepath.Join(t.TempDir(), "rest.json")
	if err == nil {
		err = os.WriteFile(definitions, exported, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	anew.command(t, "migrate", "--definitions", definitions, "--write-rest", rest)
	importable, err := os.ReadFile(rest)
	if err == nil {
		_, err = rabbitmq.Manage(t.Context(), green.ManagementURL(), http.MethodPost, "/api/definitions", string(importable))
	}
	if err != nil {
		t.Fatal(err)
	}
	anew.command(t, "migrate", "--definitions", definitions, "--apply")

	// Bridges, services and publishers, one after the other. The old broker is watched until it is done.
	stop := anew.bridge(t, "--entries=orders=direct")
	anew.bind(t, anew.ready())
	anew.consume(t)
	anew.send(t, "publishers switch", anew.entry())
	old.send(t, "publishers switch", "orders")
	anew.send(t, "all have switched", anew.entry())
	old.command(t, "migrate", "status", "--watch", "--interval", "500ms", "--silent-for", "2s")
	anew.send(t, "without the old one", anew.entry())

	// Back: publishers one after the other, until nothing waits on the new broker any more.
	old.send(t, "publishers go back", "orders")
	anew.send(t, "publishers go back", anew.entry())
	old.send(t, "all are back", "orders")
	awaitThat(t, "the new broker holds nothing", func() bool { return anew.holds(t) == 0 })
	old.arrives(t, "all are back")
	stop()
	if err := green.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	old.send(t, "without the new one", "orders")
	old.arrives(t, "the end")
	if after := old.old(t); after != before {
		t.Errorf("the way back has left %s\nwant %s", after, before)
	}
	old.cameOnce(t)
}
