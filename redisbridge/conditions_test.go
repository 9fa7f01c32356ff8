package redisbridge_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/health"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// reports tells whether the only bridge's report has a condition.
func reports(r redisbridge.BridgeStats, is health.Condition) bool {
	return slices.ContainsFunc(r.Conditions, func(c redisbridge.ConditionState) bool { return c.Condition == string(is) })
}

// awaitCondition returns once the only bridge reports a condition, and awaitOver once it does no more.
func (b *bench) awaitCondition(t *testing.T, is health.Condition) redisbridge.ConditionState {
	t.Helper()
	r := reportWhen(t, b.park, "the bridge reports "+string(is), func(r redisbridge.BridgeStats) bool { return reports(r, is) })
	return r.Conditions[slices.IndexFunc(r.Conditions, func(c redisbridge.ConditionState) bool { return c.Condition == string(is) })]
}

func (b *bench) awaitOver(t *testing.T, is health.Condition) {
	t.Helper()
	reportWhen(t, b.park, string(is)+" is over", func(r redisbridge.BridgeStats) bool { return !reports(r, is) })
}

// Hundreds of messages that Redis has no room for are one line of the log at the beginning
// and one at the end, and all are parked then.
func TestFullRedisIsSaidOnce(t *testing.T) {
	t.Parallel()
	const n = 300
	b, operator := newBenchWithRedis(t, short())
	log := newLogCapture()
	b.run(t, func(c *redisbridge.Config) { c.Logger = log.logger() })
	b.awaitComplete(t)
	operator.set(t, "maxmemory", "1mb")
	var all []amqp.Publishing
	for i := range n {
		all = append(all, amqp.Publishing{MessageId: fmt.Sprint("m-", i), Headers: amqp.Table{"x-delay": int64(time.Hour/time.Millisecond) + 1}})
	}
	b.publishEntry(t, all...)
	b.awaitCondition(t, health.RedisFull)
	log.await(t, "Redis is full")
	operator.set(t, "maxmemory", "0")
	until(t, "all are parked", func() bool {
		g, err := b.park.Stats(t.Context(), redisbridge.StatsOptions{})
		return err == nil && g.TotalParked() == n
	})
	b.awaitOver(t, health.RedisFull)
	for line, want := range map[string]int{"Redis is full": 1, "Redis has room again": 1, "in the inbox for now": 0} {
		if got := log.count(line); got != want {
			t.Errorf("%q was logged %d times, want %d:\n%s", line, got, want, log.all())
		}
	}
}

// A setting that somebody changes while the bridge runs is seen, and that it is mended.
func TestLostPersistenceIsSeen(t *testing.T) {
	t.Parallel()
	b, operator := newBenchWithRedis(t, short())
	operator.set(t, "maxmemory-policy", "noeviction")
	operator.set(t, "appendfsync", "always")
	operator.set(t, "appendonly", "yes")
	log := newLogCapture()
	b.run(t, func(c *redisbridge.Config) { c.Logger, c.RepairEvery = log.logger(), time.Second })
	reportWhen(t, b.park, "a bridge lives", func(redisbridge.BridgeStats) bool { return true })
	b.awaitOver(t, health.RedisSettings)
	operator.set(t, "appendonly", "no")
	if c := b.awaitCondition(t, health.RedisSettings); !strings.Contains(c.Detail, "appendonly is no") {
		t.Errorf("the detail is %q", c.Detail)
	}
	operator.set(t, "appendonly", "yes")
	b.awaitOver(t, health.RedisSettings)
	log.await(t, "Redis is set to keep what it confirms")
}

// What FLUSHALL takes away while a bridge is at work, or sleeps, is seen and said.
func TestWipedRedisIsSeen(t *testing.T) {
	t.Parallel()
	for name, delay := range map[string]time.Duration{"asleep": time.Hour, "at work": 1500 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, operator := newBenchWithRedis(t, short())
			log := newLogCapture()
			b.run(t, func(c *redisbridge.Config) { c.Logger = log.logger() })
			owns := func(r redisbridge.BridgeStats) bool { return len(r.Shards) == b.topology.Shards() }
			reportWhen(t, b.park, "a bridge owns all shards", owns)
			for i := range 100 {
				b.parkOne(t, fmt.Sprint("m-", i), message.After(delay))
			}
			if _, seen, err := b.park.Loss(t.Context()); seen || err != nil {
				t.Fatalf("before anything is lost: %v, %v", seen, err)
			}
			operator.do(t, "FLUSHALL")
			log.await(t, "Redis has lost what this bridge kept there")
			b.awaitCondition(t, health.RedisLost)
			loss, seen, err := b.park.Loss(t.Context())
			if err != nil || !seen || loss.Bridge == "" || loss.What == "" {
				t.Errorf("the loss is %+v, %v, %v", loss, seen, err)
			}
			inspection, err := redisbridge.Inspect(t.Context(), b.client, b.topology)
			if err != nil || inspection.Loss != loss || inspection.Version == "" {
				t.Errorf("the inspection has loss %+v and layout %q, %v; want the same loss, and a layout", inspection.Loss, inspection.Version, err)
			}
		})
	}
}

// A bridge that is new, one that was away for long, and shards that change hands are no loss.
func TestNothingIsLostWhereBridgesComeAndGo(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	log := newLogCapture()
	logged := func(c *redisbridge.Config) { c.Logger = log.logger() }
	for i := range 3 {
		first, second := b.run(t, logged), b.run(t, logged)
		b.parkOne(t, fmt.Sprint("m-", i), message.After(200*time.Millisecond))
		b.arrivals.await(t, i+1, patience)
		first()
		second()
	}
	if log.count("Redis has lost") > 0 {
		t.Errorf("nothing was lost, but:\n%s", log.all())
	}
}

// An operator policy that lowers the TTLs is seen, and that it is gone.
func TestPolicyThatOverridesIsSeen(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	management, err := topology.NewManagement(b.ManagementURL, b.VHost)
	if err != nil {
		t.Fatal(err)
	}
	log := newLogCapture()
	b.run(t, func(c *redisbridge.Config) {
		c.Logger, c.RepairEvery, c.Management = log.logger(), time.Second, management
	})
	b.awaitComplete(t)
	const path = "/api/operator-policies/"
	b.Manage(t, http.MethodPut, path+b.VHost+"/short", `{"pattern":"tier","apply-to":"queues","definition":{"message-ttl":500}}`)
	if c := b.awaitCondition(t, health.Policy); !strings.Contains(c.Detail, `operator policy "short"`) || !strings.Contains(c.Detail, "message-ttl 500") {
		t.Errorf("the detail is %q", c.Detail)
	}
	b.Manage(t, http.MethodDelete, path+b.VHost+"/short", "")
	b.awaitOver(t, health.Policy)
	log.await(t, "no policy overrides")
}

// A queue that answers nothing is said once, with where the message goes, as is its end.
func TestQueueThatConfirmsNothingIsSeen(t *testing.T) {
	t.Parallel()
	env := servertest.ForTest(t)
	server := servertest.SingleRabbitMQ(t)
	env.AMQPURL, env.ManagementURL, env.VHost = server.AMQPURL(), server.ManagementURL(), "/"
	config := short()
	config.Shards = 1
	b := newBenchAt(t, config, env)
	b.arrivals = listen(t, b.dial(t))
	log := newLogCapture()
	b.run(t, func(c *redisbridge.Config) { c.Logger = log.logger() })
	b.awaitComplete(t)
	b.parkOne(t, "one", message.After(short().Lead+time.Second))
	b.arrivals.await(t, 1, patience)
	resume := servertest.Silence(t, server, b.topology.Lane(short().Lead, 0))
	b.parkOne(t, "two", message.After(short().Lead+time.Second))
	log.await(t, "RabbitMQ does not confirm what was published")
	if c := b.awaitCondition(t, health.Unconfirmed); !strings.Contains(c.Detail, b.topology.Prefix()) {
		t.Errorf("the detail is %q", c.Detail)
	}
	resume()
	b.arrivals.await(t, 2, patience)
	b.awaitOver(t, health.Unconfirmed)
	log.await(t, "RabbitMQ confirms what is published again")
}
