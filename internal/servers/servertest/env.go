package servertest

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/servers/rabbitmq"
	"github.com/delaybridge/delaybridge/internal/servers/redisserver"
)

// cleanUpTimeout bounds what is done after a test.
const cleanUpTimeout = 2 * time.Minute

// Env is one test's own corner of the shared servers: a virtual host and a
// prefix that no other test has, so that all tests can run in parallel.
type Env struct {
	AMQPURL       string // includes VHost
	ManagementURL string // http://user:password@host:port
	RedisURL      string
	Prefix        string // for the names of exchanges, queues and Redis keys
	VHost         string

	sharedRedis string
}

// OwnRedis says whether the test has put a Redis of its own in the place of the shared one.
func (e Env) OwnRedis() bool { return e.RedisURL != e.sharedRedis }

// ForTest makes an Env, and removes all that is in it when the test is over; but
// a cluster with a node down keeps its virtual hosts until it is stopped, since it
// waits for 5 s over each quorum queue that is deleted. A Redis key belongs to it when it begins with a hash tag that begins with the
// prefix.
func ForTest(t testing.TB) Env {
	t.Helper()
	at, err := shared.start(t.Context())
	if err != nil {
		t.Fatalf("no servers for tests: %v", err)
	}
	prefix := "t-" + strings.ToLower(rand.Text()[:12])
	env, err := newEnv(at, prefix)
	if err != nil {
		t.Fatal(err)
	}
	if err := env.createVHost(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanUpTimeout)
		defer cancel()
		if t.Failed() {
			t.Log(env.left(ctx))
		}
		if err := env.deleteVHost(ctx); err != nil {
			t.Error(err)
		}
		if err := env.deleteKeys(ctx); err != nil {
			t.Errorf("delete the Redis keys of %s: %v", env.Prefix, err)
		}
	})
	return env
}

// RedisLayout is the layout of Redis under test.
func RedisLayout() servers.Layout {
	return cmp.Or(servers.Layout(os.Getenv(servers.RedisLayoutVariable)), servers.Single)
}

// RabbitMQLayout is the layout of RabbitMQ under test.
func RabbitMQLayout() servers.Layout {
	return cmp.Or(servers.Layout(os.Getenv(servers.RabbitMQLayoutVariable)), servers.Single)
}

// RabbitMQForTest starts a server for one test that kills or pauses it. Where
// the layout is a cluster, that is one node of two that run, of three: when it
// is killed, quorum queues wait for it.
func RabbitMQForTest(t testing.TB) *rabbitmq.Node {
	t.Helper()
	if RabbitMQLayout() == servers.Clustered {
		shared.cluster.Lock() // more of them at a time are too much for a small machine
		t.Cleanup(shared.cluster.Unlock)
	}
	r, stop, err := servers.StartBroker(t.Context(), servers.Config{})
	if err != nil {
		t.Fatalf("no RabbitMQ for this test: %v", err)
	}
	stopAfter(t, stop)
	return r
}

// RedisForTest starts Redis for one test that kills it or changes its settings,
// in the layout that the environment asks for, unless the test names one.
func RedisForTest(t testing.TB, layout ...servers.Layout) *redisserver.Store {
	t.Helper()
	var c servers.Config
	if len(layout) > 0 {
		c.RedisLayout = layout[0]
	}
	s, err := servers.StartStore(t.Context(), c)
	if err != nil {
		t.Fatalf("no Redis for this test: %v", err)
	}
	stopAfter(t, s.Stop)
	return s
}

// stopAfter stops a server when the test is over.
func stopAfter(t testing.TB, stop func(context.Context) error) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanUpTimeout)
		defer cancel()
		if err := stop(ctx); err != nil {
			t.Error(err)
		}
	})
}

// newEnv derives a test's addresses from those of the shared servers.
func newEnv(at addresses, name string) (Env, error) {
	u, err := url.Parse(at.amqp)
	if err != nil {
		return Env{}, fmt.Errorf("%s: %w", AMQPVariable, err)
	}
	u.Path = "/" + name
	return Env{AMQPURL: u.String(), ManagementURL: at.management, RedisURL: at.redis, Prefix: name, VHost: name, sharedRedis: at.redis}, nil
}

// createVHost makes the virtual host and lets the test's user do everything in it.
func (e Env) createVHost(ctx context.Context) error {
	u, err := url.Parse(e.AMQPURL)
	if err != nil {
		return err
	}
	if err := e.manage(ctx, http.MethodPut, "/api/vhosts/"+e.VHost, "{}"); err != nil {
		return err
	}
	return e.manage(ctx, http.MethodPut,
		"/api/permissions/"+e.VHost+"/"+url.PathEscape(u.User.Username()),
		`{"configure":".*","write":".*","read":".*"}`)
}

// left says what a failed test leaves in its virtual host.
func (e Env) left(ctx context.Context) string {
	var b strings.Builder
	for _, part := range []struct{ title, path string }{
		{"queues", "queues/" + e.VHost + "?disable_stats=true&enable_queue_totals=true&columns=name,type,messages_ready,messages_unacknowledged"},
		{"bindings", "bindings/" + e.VHost + "?columns=source,destination,routing_key,arguments"},
	} {
		answer, err := rabbitmq.Manage(ctx, e.ManagementURL, http.MethodGet, "/api/"+part.path, "")
		if err != nil {
			fmt.Fprintf(&b, "%s are unknown: %v\n", part.title, err)
			continue
		}
		fmt.Fprintf(&b, "%s: %s\n", part.title, answer)
	}
	return b.String()
}

// deleteVHost removes the virtual host where that takes no minutes.
func (e Env) deleteVHost(ctx context.Context) error {
	if RabbitMQLayout() == servers.Clustered {
		return nil
	}
	return e.manage(ctx, http.MethodDelete, "/api/vhosts/"+e.VHost, "")
}

// Manage sends a request to the management API, as an operator would, and
// returns the answer. A refusal is fatal.
func (e Env) Manage(t testing.TB, method, path, body string) []byte {
	t.Helper()
	answer, err := rabbitmq.Manage(context.WithoutCancel(t.Context()), e.ManagementURL, method, path, body) // cleaning up, too
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func (e Env) manage(ctx context.Context, method, path, body string) error {
	_, err := rabbitmq.Manage(ctx, e.ManagementURL, method, path, body)
	return err
}

// deleteKeys removes the test's keys, and no others.
func (e Env) deleteKeys(ctx context.Context) error {
	client, err := NewRedisClient(e.RedisURL)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	return eachPrimary(ctx, client, func(ctx context.Context, c *redis.Client) error {
		for cursor := uint64(0); ; {
			keys, next, err := c.Scan(ctx, cursor, "{"+e.Prefix+"*", 1000).Result()
			if err != nil {
				return err
			}
			_, err = c.Pipelined(ctx, func(pipe redis.Pipeliner) error { // a wait for the disk each would take long
				for _, key := range keys {
					pipe.Unlink(ctx, key)
				}
				return nil
			})
			if cursor = next; err != nil || cursor == 0 {
				return err
			}
		}
	})
}
