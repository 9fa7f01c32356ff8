package servertest_test

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

func TestForTestGivesEachTestItsOwnCorner(t *testing.T) {
	t.Parallel()
	one, two := servertest.ForTest(t), servertest.ForTest(t)
	if one.VHost == two.VHost || one.Prefix == two.Prefix {
		t.Fatalf("shared between tests: %+v and %+v", one, two)
	}
	for _, env := range []servertest.Env{one, two} {
		conn, err := amqp.Dial(env.AMQPURL)
		if err != nil {
			t.Fatal(err)
		}
		if conn.Config.Vhost != env.VHost {
			t.Errorf("connected to %q, want %q", conn.Config.Vhost, env.VHost)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestForTestCleansUp(t *testing.T) {
	t.Parallel()
	watcher := servertest.OpenRedis(t, servertest.ForTest(t).RedisURL)
	var gone servertest.Env
	t.Run("a test that leaves a key and a virtual host", func(t *testing.T) {
		gone = servertest.ForTest(t)
		if err := servertest.OpenRedis(t, gone.RedisURL).Set(t.Context(), "{"+gone.Prefix+"}:order", "42", 0).Err(); err != nil {
			t.Fatal(err)
		}
	})
	if n, err := watcher.Exists(t.Context(), "{"+gone.Prefix+"}:order").Result(); err != nil || n != 0 {
		t.Errorf("the key is still there (%d, %v)", n, err)
	}
	if servertest.RabbitMQLayout() == servers.Clustered {
		return // where virtual hosts stay: see ForTest
	}
	if conn, err := amqp.Dial(gone.AMQPURL); err == nil {
		_ = conn.Close()
		t.Errorf("virtual host %s is still there", gone.VHost)
	}
}
