// Package servertest gives each test its own corner of real RabbitMQ, Redis and
// database servers. A test that cannot have one fails; it is never skipped.
package servertest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/delaybridge/delaybridge/internal/servers"
)

// Environment variables that name servers which run already, all three or none.
// Without them the tests of a process start a pair of their own.
const (
	AMQPVariable       = "DELAYBRIDGE_TEST_AMQP_URL"
	ManagementVariable = "DELAYBRIDGE_TEST_MANAGEMENT_URL"
	RedisVariable      = "DELAYBRIDGE_TEST_REDIS_URL"
)

// addresses are where the shared servers answer.
type addresses struct {
	amqp, management, redis string
}

// sharedServers are the servers that all tests of this process share, started
// by the first test that needs them.
type sharedServers struct {
	mu    sync.Mutex
	tried bool
	err   error
	pair  *servers.Pair // nil when the environment names the servers
	at    addresses

	cluster sync.Mutex // held by the one test that has a RabbitMQ cluster of its own

	postgreSQL, mariaDB database
}

// shared is a variable because testing hands nothing from TestMain to the tests.
var shared sharedServers

// These are goroutines of toxiproxy. A link that is cut while bytes are on their way leaves behind
// the one that hands them on, and, if there are more, the one that reads them.
const (
	toxicStub = "github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"
	toxicRead = "github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"
)

// Main is for TestMain: it runs the tests, stops the servers that they shared,
// and fails when a goroutine is left. It does not return.
func Main(m *testing.M) {
	quieten()
	code := m.Run()
	ctx := context.Background()
	if err := errors.Join(shared.stop(ctx), shared.postgreSQL.stop(ctx), shared.mariaDB.stop(ctx)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	if code == 0 {
		if err := goleak.Find(goleak.IgnoreAnyFunction(toxicStub), goleak.IgnoreAnyFunction(toxicRead)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// LogVariable in the environment shows what the packages log by default; so does -v.
const LogVariable = "DELAYBRIDGE_TEST_LOG"

// quieten discards the default log, unless -v or LogVariable asks for it. Tests stop servers and
// let handlers fail: thousands of lines would hide the failure of a test.
func quieten() {
	logging.Disable()
	flag.Parse()
	if !testing.Verbose() && os.Getenv(LogVariable) == "" {
		slog.SetDefault(slog.New(slog.DiscardHandler))
	}
}

// start returns where the shared servers answer, and starts them before that
// if that was not done.
func (s *sharedServers) start(ctx context.Context) (addresses, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.tried {
		s.tried = true
		s.err = s.find(ctx)
	}
	return s.at, s.err
}

// find takes the servers that the environment names, or starts a pair.
func (s *sharedServers) find(ctx context.Context) error {
	s.at = addresses{os.Getenv(AMQPVariable), os.Getenv(ManagementVariable), os.Getenv(RedisVariable)}
	if s.at.amqp != "" && s.at.management != "" && s.at.redis != "" {
		return nil
	}
	if s.at != (addresses{}) {
		return fmt.Errorf("set all of %s, %s and %s, or none", AMQPVariable, ManagementVariable, RedisVariable)
	}
	pair, err := servers.Start(ctx, servers.Config{})
	if err != nil {
		return err
	}
	s.pair = pair
	s.at = addresses{pair.RabbitMQ.AMQPURL(), pair.RabbitMQ.ManagementURL(), pair.Redis.URL()}
	return nil
}

// stop ends the servers that this process started.
func (s *sharedServers) stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pair == nil {
		return nil
	}
	pair := s.pair
	s.pair, s.tried, s.err = nil, true, errors.New("the shared servers have been stopped")
	return pair.Stop(ctx)
}
