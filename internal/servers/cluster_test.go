package servers_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/servers/rabbitmq"
)

// replicas is a quorum queue in the eyes of the management API.
type replicas struct {
	Leader  string
	Members []string
}

// ask reads from a node's management API.
func ask(t *testing.T, r *rabbitmq.Node, path string, answer any) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	body, err := rabbitmq.Manage(ctx, r.ManagementURL(), http.MethodGet, path, "")
	if err != nil {
		return err
	}
	return json.Unmarshal(body, answer)
}

// awaitRunning waits until a node sees that many nodes run.
func awaitRunning(t *testing.T, r *rabbitmq.Node, want int) {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(3 * time.Minute) // healing Mnesia may take one of them
	for {
		var nodes []struct{ Running bool }
		// While a node is going, the API may answer with an error.
		err := ask(t, r, "/api/nodes", &nodes)
		running := 0
		for _, n := range nodes {
			if n.Running {
				running++
			}
		}
		if running == want {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s sees %d nodes run (%v), want %d", r.NodeName(), running, err, want)
		}
	}
}

// publishConfirmed publishes to a queue and waits for the broker's word.
func publishConfirmed(t *testing.T, ch *amqp.Channel, queue, body string) {
	t.Helper()
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	confirmation, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), "", queue, true, false,
		amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if ok, err := confirmation.WaitContext(ctx); err != nil || !ok {
		t.Fatalf("%q is not confirmed: %v", body, err)
	}
}

// consume takes that many messages off a queue.
func consume(t *testing.T, r *rabbitmq.Node, queue string, n int) []string {
	t.Helper()
	ch := openChannel(t, r)
	defer ch.Close()
	deliveries, err := ch.ConsumeWithContext(t.Context(), queue, "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	var bodies []string
	deadline := time.After(time.Minute)
	for len(bodies) < n {
		select {
		case d, ok := <-deliveries:
			if !ok {
				t.Fatalf("the channel closed after %q", bodies)
			}
			bodies = append(bodies, string(d.Body))
		case <-deadline:
			t.Fatalf("only %q arrived", bodies)
		}
	}
	return bodies
}

// One cluster for all: three nodes at a time are enough for a small machine.
func TestCluster(t *testing.T) {
	t.Parallel()
	c, err := servers.StartCluster(t.Context(), servers.Config{})
	if err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceValue(func() error { return c.Stop(context.Background()) })
	t.Cleanup(func() { _ = stop() }) // the last test looks at how it ends
	t.Run("outlives the leader of a queue", func(t *testing.T) { outlivesALeader(t, c.Nodes()) })
	t.Run("notices a silent node and takes it back", func(t *testing.T) { takesBackASilentNode(t, c.Nodes()) })
	t.Run("leaves nothing behind", func(t *testing.T) { leavesNothing(t, c.Nodes(), stop) })
}

func outlivesALeader(t *testing.T, nodes []*rabbitmq.Node) {
	t.Helper()
	ch := openChannel(t, nodes[0])
	arguments := amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum}
	if _, err := ch.QueueDeclare("orders", true, false, false, false, arguments); err != nil {
		t.Fatal(err)
	}
	var queue replicas
	if err := ask(t, nodes[1], "/api/queues/%2F/orders", &queue); err != nil || len(queue.Members) != 3 {
		t.Fatalf("the queue has members %q (%v), want 3", queue.Members, err)
	}
	publishConfirmed(t, ch, "orders", "before")

	leads := slices.IndexFunc(nodes, func(r *rabbitmq.Node) bool { return r.NodeName() == queue.Leader })
	if leads < 0 {
		t.Fatalf("%s leads the queue, and is none of the nodes", queue.Leader)
	}
	leader, other := nodes[leads], nodes[(leads+1)%3]
	if err := leader.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	publishConfirmed(t, openChannel(t, other), "orders", "after")
	if got := consume(t, other, "orders", 2); !slices.Equal(got, []string{"before", "after"}) {
		t.Errorf("got %q, want before and after", got)
	}

	if err := leader.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitRunning(t, other, 3)
	publishConfirmed(t, openChannel(t, leader), "orders", "back")
	if got := consume(t, other, "orders", 1); got[0] != "back" {
		t.Errorf("got %q, want what the restarted node has published", got)
	}
}

func takesBackASilentNode(t *testing.T, nodes []*rabbitmq.Node) {
	t.Helper()
	silent, other := nodes[2], nodes[0]
	if err := silent.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitRunning(t, other, 2)
	if err := silent.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitRunning(t, other, 3)
}

func leavesNothing(t *testing.T, nodes []*rabbitmq.Node, stop func() error) {
	t.Helper()
	var addresses []string
	for _, r := range nodes {
		uri, err := amqp.ParseURI(r.AMQPURL())
		if err != nil {
			t.Fatal(err)
		}
		addresses = append(addresses, net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port)))
	}
	// Private nodes share an epmd, which is a process of its own.
	printed, err := nodes[0].Control(t.Context(), "eval", `os:getenv("ERL_EPMD_PORT").`)
	if err != nil {
		t.Fatal(err)
	}
	if printed = strings.TrimSpace(printed); printed != "false" {
		port, err := strconv.Unquote(printed)
		if err != nil {
			t.Fatalf("the port of epmd is %s: %v", printed, err)
		}
		addresses = append(addresses, net.JoinHostPort("127.0.0.1", port))
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for _, address := range addresses {
		if conn, err := net.Dial("tcp", address); err == nil {
			_ = conn.Close()
			t.Errorf("%s answers", address)
		}
	}
}
