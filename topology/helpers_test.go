package topology_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/topology"
)

// stateTimeout bounds the wait for a state. The broker's statistics are up to
// ten seconds late, more on a busy machine.
const stateTimeout = 60 * time.Second

// bench is one test's virtual host, with a small topology described for it.
type bench struct {
	env servertest.Env
	*topology.Topology
	conn       *amqp.Connection
	management *topology.Management
}

// newBench describes two tiers, one lane, an entry beside the default one, and
// what every topology has.
func newBench(t testing.TB) *bench {
	t.Helper()
	env := servertest.ForTest(t)
	management, err := topology.NewManagement(env.ManagementURL, env.VHost)
	if err != nil {
		t.Fatal(err)
	}
	return &bench{
		env: env, conn: dial(t, env.AMQPURL), management: management,
		Topology: describe(t, topology.Config{
			Prefix: env.Prefix, Tiers: []time.Duration{time.Second, 30 * time.Second}, Lead: time.Second, Shards: 1,
			Entries: []topology.Entry{{Name: "audit", Kind: amqp.ExchangeFanout}},
		}),
	}
}

// apply applies the topology.
func (b *bench) apply(t testing.TB) []topology.Change {
	t.Helper()
	changes, err := b.Apply(t.Context(), b.conn)
	if err != nil {
		t.Fatal(err)
	}
	return changes
}

func dial(t testing.TB, address string) *amqp.Connection {
	t.Helper()
	conn, err := amqp.Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // the broker may have closed it with the virtual host
	return conn
}

// channel opens a channel, which lives as long as the connection.
func (b *bench) channel(t testing.TB) *amqp.Channel {
	t.Helper()
	ch, err := b.conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

// manage sends a request to the management API, as an operator would.
func (b *bench) manage(t testing.TB, method, path, body string) string {
	t.Helper()
	return string(b.env.Manage(t, method, path, body))
}

// user creates a user of this virtual host with the given permissions, and
// returns the AMQP URL to connect as that user.
func (b *bench) user(t testing.TB, permissions string) string {
	t.Helper()
	name := b.Prefix() + "-user"
	b.manage(t, http.MethodPut, "/api/users/"+name, `{"password":"secret","tags":""}`)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stateTimeout)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodDelete, b.env.ManagementURL+"/api/users/"+name, nil)
		if err != nil {
			t.Error(err)
			return
		}
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		response, err := client.Do(request)
		if err != nil {
			t.Error(err)
			return
		}
		_ = response.Body.Close()
	})
	b.manage(t, http.MethodPut, "/api/permissions/"+b.env.VHost+"/"+name, permissions)
	u, err := url.Parse(b.env.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(name, "secret")
	return u.String()
}

// eventually waits until reached returns true.
func eventually(t testing.TB, what string, reached func() bool) {
	t.Helper()
	deadline := time.Now().Add(stateTimeout)
	for !reached() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, stateTimeout)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// publish publishes confirmed.
func (b *bench) publish(t testing.TB, exchange, key string, p amqp.Publishing) {
	t.Helper()
	ch := b.channel(t)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	p.DeliveryMode = amqp.Persistent
	confirmation, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), exchange, key, false, false, p)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := confirmation.WaitContext(t.Context()); err != nil || !ok {
		t.Fatalf("publish to %s: confirmed %v (%v)", exchange, ok, err)
	}
}

// await gets the next message of a queue, and acknowledges it.
func (b *bench) await(t testing.TB, queue string) amqp.Delivery {
	t.Helper()
	ch := b.channel(t)
	var got amqp.Delivery
	eventually(t, "a message in "+queue, func() bool {
		d, ok, err := ch.Get(queue, true)
		if err != nil {
			t.Fatal(err)
		}
		got = d
		return ok
	})
	return got
}

// list names what there is of a kind in this virtual host: queues, exchanges.
func (b *bench) list(t testing.TB, kind string) []string {
	t.Helper()
	var entities []struct{ Name string }
	answer := b.manage(t, http.MethodGet, "/api/"+kind+"/"+b.env.VHost, "")
	if err := json.Unmarshal([]byte(answer), &entities); err != nil {
		t.Fatal(err)
	}
	names := make([]string, len(entities))
	for i, e := range entities {
		names[i] = e.Name
	}
	return names
}

// verify returns the drift.
func (b *bench) verify(t testing.TB) []topology.Drift {
	t.Helper()
	drifts, err := b.Verify(t.Context(), b.management)
	if err != nil {
		t.Fatal(err)
	}
	return drifts
}

// verifiedWithout fails when there is drift.
func (b *bench) verifiedWithout(t testing.TB) {
	t.Helper()
	for _, d := range b.verify(t) {
		t.Errorf("drift: %+v", d)
	}
}
