package ui_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/servers/rabbitmq"
	"github.com/delaybridge/delaybridge/internal/servers/redisserver"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/producer"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// scene is a shop on servers of its own, whose UI so shows nothing else.
type scene struct {
	t        *testing.T
	rabbit   *rabbitmq.Node
	redis    *redisserver.Store
	topology *topology.Topology
	producer *producer.Producer
	channel  *amqp.Channel // of a client in another language
	bridge   *redisbridge.Bridge
	sent     atomic.Int64
}

// Routing keys, each of a queue with that name.
const (
	billing = "billing" // its consumer handles everything
	archive = "archive" // has no consumer
	broken  = "broken"  // its consumer gives everything up
	flaky   = "flaky"   // its consumer fails, and tries again later
	nobody  = "nobody"  // is bound for it
)

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{t: t, rabbit: servertest.RabbitMQForTest(t), redis: servertest.RedisForTest(t, servers.Single)}
	var err error
	if s.topology, err = topology.New(topology.Config{}); err != nil {
		t.Fatal(err)
	}
	conn, err := amqp.DialConfig(s.rabbit.AMQPURL(), amqp.Config{Properties: amqp.Table{"product": "shop", "connection_name": "shop in another language"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := s.topology.Apply(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	if s.channel, err = conn.Channel(); err != nil {
		t.Fatal(err)
	}
	servertest.VerifyAfter(t, s.park())
	s.runBridge()
	s.runProducer()
	s.consume(billing, func(context.Context, message.Message) error { return nil })
	s.consume(broken, func(context.Context, message.Message) error {
		return consumer.Reject(errors.New("there is no order 42"))
	})
	s.consume(flaky, func(context.Context, message.Message) error {
		return consumer.RetryAfter(40*time.Minute, errors.New("the payment service does not answer"))
	})
	if _, err := s.channel.QueueDeclare(archive, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	if err := s.channel.QueueBind(archive, archive, s.topology.ReadyExchange(), false, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// run has something run until the test is over.
func (s *scene) run(what string, run func(context.Context) error) {
	ctx, stop := context.WithCancel(context.WithoutCancel(s.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	s.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			s.t.Errorf("%s: %v", what, err)
		}
	})
}

func (s *scene) park() *redisbridge.Park {
	s.t.Helper()
	client := servertest.OpenRedis(s.t, s.redis.URL())
	park, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: client, Topology: s.topology})
	if err != nil {
		s.t.Fatal(err)
	}
	return park
}

func (s *scene) runBridge() {
	s.t.Helper()
	var err error
	s.bridge, err = redisbridge.New(redisbridge.Config{
		Client: servertest.OpenRedis(s.t, s.redis.URL()), AMQPURL: s.rabbit.AMQPURL(), Topology: s.topology, Name: "host-1",
		DrainTimeout: 2 * time.Second,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.run("bridge", s.bridge.Run)
}

func (s *scene) runProducer() {
	s.t.Helper()
	var err error
	s.producer, err = producer.New(producer.Config{AMQPURL: s.rabbit.AMQPURL(), Topology: s.topology, Parker: s.park(), Untracked: true})
	if err != nil {
		s.t.Fatal(err)
	}
	s.run("producer", s.producer.Run)
}

func (s *scene) consume(queue string, handle consumer.HandlerFunc) {
	s.t.Helper()
	c, err := consumer.New(consumer.Config{
		AMQPURL: s.rabbit.AMQPURL(), Topology: s.topology, Queue: queue, Bind: []string{queue}, Handler: handle, Delayer: s.park(),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.run("consumer of "+queue, c.Run)
	select {
	case <-c.Ready():
	case <-time.After(patience):
		s.t.Fatalf("the consumer of %s is not ready", queue)
	}
}

// publish sends a message with the Go producer.
func (s *scene) publish(key string, delay time.Duration) {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	m := message.Message{
		ID: "order-" + strconv.FormatInt(s.sent.Add(1), 10), RoutingKey: key, ContentType: "application/json", Body: []byte(`{"order":42}`),
	}
	if _, err := s.producer.Publish(ctx, m, message.After(delay)); err != nil && s.t.Context().Err() == nil {
		s.t.Errorf("publish: %v", err)
	}
}

// publishForeign sends one as a client in any language does.
func (s *scene) publishForeign(key string, delay time.Duration) {
	err := s.channel.PublishWithContext(s.t.Context(), s.topology.EntryExchange(), key, true, false, amqp.Publishing{
		MessageId: "foreign-" + strconv.FormatInt(s.sent.Add(1), 10), DeliveryMode: amqp.Persistent,
		Headers: amqp.Table{"x-delay": delay.Milliseconds()}, ContentType: "application/json", Body: []byte(`{"order":42}`),
	})
	if err != nil && s.t.Context().Err() == nil {
		s.t.Errorf("publish: %v", err)
	}
}

// load has messages on every path until the test is over.
func (s *scene) load() {
	s.run("load", func(ctx context.Context) error {
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return nil
			case <-s.t.Context().Done():
				return nil
			case <-ticker.C:
			}
			s.publish(billing, 30*time.Minute)
			s.publish(billing, time.Second)
			s.publish(billing, 90*time.Minute)
			s.publish(archive, 3*time.Second)
			s.publish(billing, 40*time.Second)
			s.publishForeign(billing, 10*time.Minute)
			s.publishForeign(billing, 45*time.Minute)
			s.publishForeign(billing, 0)
			if n%20 == 0 {
				s.publish(broken, time.Second)
				s.publish(flaky, time.Second)
				s.publish(nobody, time.Second)
				s.publishForeign(broken, time.Second)
				s.publishForeign(archive, time.Second)
			}
		}
	})
}
