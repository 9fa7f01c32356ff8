package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/delaybridge/delaybridge/internal/servers/rabbitmq"
	"github.com/delaybridge/delaybridge/internal/servers/redisserver"
	"github.com/delaybridge/delaybridge/producer"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// site is an installation without a bridge: servers, topology, producer and
// park, and a queue for all that comes out.
type site struct {
	rabbitmq *rabbitmq.Node
	redis    *redisserver.Store
	topology *topology.Topology
	client   redis.UniversalClient
	conn     *amqp.Connection // of the consumer
	park     *redisbridge.Park
	producer *producer.Producer
	arrivals atomic.Pointer[arrivals] // of the load under way

	stops   []func() // of what runs until close
	workers sync.WaitGroup
	failed  chan error
}

func newSite(ctx context.Context, prefix string, rabbitmq *rabbitmq.Node, store *redisserver.Store) (*site, error) {
	t, err := topology.New(topology.Config{Prefix: prefix})
	if err != nil {
		return nil, err
	}
	s := &site{rabbitmq: rabbitmq, redis: store, topology: t, failed: make(chan error, 4)}
	if s.client, err = redisbridge.NewClient(store.URL()); err != nil {
		return nil, err
	}
	if s.conn, err = amqp.Dial(rabbitmq.AMQPURL()); err != nil {
		return nil, err
	}
	if _, err := t.Apply(ctx, s.conn); err != nil {
		return nil, err
	}
	if err := s.consume(); err != nil {
		return nil, err
	}
	if s.park, err = redisbridge.NewPark(redisbridge.ParkConfig{Client: s.client, Topology: t}); err != nil {
		return nil, err
	}
	if s.producer, err = producer.New(producer.Config{AMQPURL: rabbitmq.AMQPURL(), Topology: t, Parker: s.park}); err != nil {
		return nil, err
	}
	s.run(ctx, s.producer.Run)
	return s, nil
}

// run keeps something running until the site closes.
func (s *site) run(ctx context.Context, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	s.workers.Go(func() {
		defer close(ended)
		if err := run(ctx); err != nil {
			s.failed <- err
		}
	})
	s.stops = append(s.stops, func() {
		cancel()
		<-ended
	})
}

// bridge runs a bridge in this process.
func (s *site) bridge(ctx context.Context, c redisbridge.Config) error {
	c.Client, c.AMQPURL, c.Topology = s.client, s.rabbitmq.AMQPURL(), s.topology
	bridge, err := redisbridge.New(c)
	if err != nil {
		return err
	}
	s.run(ctx, bridge.Run)
	return nil
}

func (s *site) close() {
	for _, stop := range slices.Backward(s.stops) {
		stop()
	}
	_ = s.conn.Close() // which ends the consumer
	s.workers.Wait()
	_ = s.client.Close()
}

// outQueue is where everything comes out.
func (s *site) outQueue() string { return s.topology.Prefix() + ".out" }

// consume notes when each message comes out, whichever path it took.
func (s *site) consume() error {
	ch, err := s.conn.Channel()
	if err != nil {
		return err
	}
	if _, err := ch.QueueDeclare(s.outQueue(), true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		return err
	}
	if err := ch.QueueBind(s.outQueue(), "#", s.topology.ReadyExchange(), false, nil); err != nil {
		return err
	}
	if err := ch.Qos(1000, 0, false); err != nil {
		return err
	}
	deliveries, err := ch.Consume(s.outQueue(), "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	s.workers.Go(func() {
		for d := range deliveries {
			now := time.Now()
			if a := s.arrivals.Load(); a != nil {
				a.note(d.MessageId, now)
			}
			_ = d.Ack(false)
		}
	})
	return nil
}

// await returns once every message has come out.
func (s *site) await(ctx context.Context, a *arrivals, patience time.Duration) error {
	select {
	case <-a.done:
		return nil
	case err := <-s.failed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(patience):
		return errors.New("messages are missing after " + patience.String())
	}
}

// begin directs the consumer to a new load of n messages.
func (s *site) begin(name string, n int) *arrivals {
	a := newArrivals(fmt.Sprintf("%s-%d", name, time.Now().UnixNano()), n)
	s.arrivals.Store(a)
	return a
}

// each calls do for 0 to n-1, in this order, from as many goroutines as given.
func each(n, hands int, do func(i int) error) error {
	var next atomic.Int64
	var group errgroup.Group
	for range hands {
		group.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				if err := do(i); err != nil {
					next.Store(int64(n)) // the others need not go on
					return err
				}
			}
		})
	}
	return group.Wait()
}
