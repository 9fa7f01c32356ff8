package servertest_test

import (
	"log/slog"
	"os"
	"os/exec"
	"strings"
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

// noisyVariable has TestNoisy log.
const noisyVariable = "TEST_IS_NOISY"

func TestNoisy(t *testing.T) {
	t.Parallel()
	if os.Getenv(noisyVariable) != "" {
		slog.Warn("what the packages log by default")
	}
}

// What the packages log by default does not hide what a test says, unless it is asked for.
func TestDefaultLogIsDiscarded(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		arguments []string
		vars      []string
		logs      bool
	}{
		{name: "nothing said"},
		{name: "-v", arguments: []string{"-test.v"}, logs: true},
		{name: "environment", vars: []string{servertest.LogVariable + "=1"}, logs: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], append(test.arguments, "-test.run=^TestNoisy$")...)
			cmd.Env = append(append(os.Environ(), servertest.LogVariable+"=", noisyVariable+"=1"), test.vars...)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if logs := strings.Contains(string(out), "what the packages log"); logs != test.logs {
				t.Errorf("logs is %v, want %v: %s", logs, test.logs, out)
			}
		})
	}
}
