package redisbridge_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
)

// elsewhere returns the same prefix and Redis, with another virtual host.
func (b *bench) elsewhere(t *testing.T) *bench {
	t.Helper()
	other := *b
	other.VHost += "-2"
	u, err := url.Parse(b.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	b.Manage(t, http.MethodPut, "/api/vhosts/"+other.VHost, "{}")
	if servertest.RabbitMQLayout() != servers.Clustered { // as in servertest.ForTest
		t.Cleanup(func() { b.Manage(t, http.MethodDelete, "/api/vhosts/"+other.VHost, "") })
	}
	b.Manage(t, http.MethodPut, "/api/permissions/"+other.VHost+"/"+u.User.Username(), `{"configure":".*","write":".*","read":".*"}`)
	u.Path = "/" + other.VHost
	other.AMQPURL = u.String()
	if err := other.setUp(t); err != nil {
		t.Fatal(err)
	}
	other.arrivals = listen(t, other.dial(t))
	return &other
}

// start starts a bridge, and returns its end.
func (b *bench) start(t *testing.T, change func(*redisbridge.Config)) (ended <-chan error) {
	t.Helper()
	c := redisbridge.Config{Client: b.client, AMQPURL: b.AMQPURL, Topology: b.topology, Name: t.Name()}
	change(&c)
	bridge, err := redisbridge.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	end, over := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(over)
		end <- bridge.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-over })
	return end
}

// awaitForeign waits for the end of a bridge that another installation's prefix turns away.
func awaitForeign(t *testing.T, ended <-chan error, names ...string) {
	t.Helper()
	select {
	case err := <-ended:
		if !errors.Is(err, redisbridge.ErrForeign) || !errors.Is(err, redisbridge.ErrConfiguration) {
			t.Fatalf("the bridge ends with %v, want ErrForeign", err)
		}
		for _, name := range names {
			if !strings.Contains(err.Error(), name) {
				t.Errorf("%q does not name %s", err, name)
			}
		}
	case <-time.After(patience):
		t.Fatal("the bridge works on what is another installation's")
	}
}

// Two installations on one Redis, under one prefix, would deliver each other's messages.
func TestPrefixBelongsToOneVirtualHost(t *testing.T) {
	t.Parallel()
	a := newBench(t, short())
	other := a.elsewhere(t)
	// A layout of which nobody knows whose it is becomes the first bridge's.
	a.parkOne(t, "parked before any bridge came", message.After(1100*time.Millisecond))
	first := a.start(t, func(*redisbridge.Config) {})
	a.arrivals.await(t, 1, patience)

	awaitForeign(t, other.start(t, func(*redisbridge.Config) {}), "virtual host "+a.VHost+" ", "virtual host "+other.VHost+" ")
	park, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: a.client, Topology: a.topology, AMQPURL: other.AMQPURL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := park.Park(t.Context(), &message.Message{ID: "foreign", RoutingKey: "k"}, message.After(time.Hour)); !errors.Is(err, redisbridge.ErrForeign) {
		t.Errorf("who publishes to the other virtual host is told %v, want ErrForeign", err)
	}

	// Those of the former owner end when they renew their entry in the register.
	a.parkOne(t, "moves", message.After(time.Hour))
	other.start(t, func(c *redisbridge.Config) { c.Adopt = true })
	awaitForeign(t, first, "virtual host "+a.VHost+" ", "virtual host "+other.VHost+" ")
	awaitForeign(t, a.start(t, func(*redisbridge.Config) {}))
	a.changed(t, redisbridge.OutcomeDone, 1)(a.park.Reschedule(t.Context(), "moves", message.After(3*time.Second)))
	if got := other.arrivals.awaitID(t, "moves"); got.RoutingKey != "order.unpaid" {
		t.Errorf("arrived with %q", got.RoutingKey)
	}
}

// A node that only has a name of its own does not say which cluster it is of.
func TestNodeIsNotTakenForACluster(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	b.parkOne(t, "has the layout written", message.After(time.Hour))
	key := "{" + b.Prefix + "}:layout"
	if err := b.client.HSet(t.Context(), key, "owner", `{"cluster":"another name","vhost":"`+b.VHost+`"}`).Err(); err != nil {
		t.Fatal(err)
	}
	// As if another one were about to write it: this was taken for another number of shards.
	if err := b.client.HDel(t.Context(), key, "shards").Err(); err != nil {
		t.Fatal(err)
	}
	b.start(t, func(*redisbridge.Config) {})
	b.parkOne(t, "of a cluster that has no name", message.After(1100*time.Millisecond))
	b.arrivals.await(t, 1, patience)
}
