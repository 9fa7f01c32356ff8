// Package lab is what all measurements share: an installation on servers of their own ([Site]),
// the ways to delay a message ([Path]), and the loads that are put on them, with when each
// message came out ([Arrivals]).
package lab

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

	"github.com/delaybridge/delaybridge/internal/servers/rabbitmq"
	"github.com/delaybridge/delaybridge/internal/servers/redisserver"
	"github.com/delaybridge/delaybridge/producer"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// Site is an installation without a bridge: servers, topology, producers and
// park, and a queue for all that comes out.
type Site struct {
	RabbitMQ *rabbitmq.Node
	Redis    *redisserver.Store
	Topology *topology.Topology
	Client   redis.UniversalClient
	Conn     *amqp.Connection // of the consumer
	Park     *redisbridge.Park
	Producer *producer.Producer
	// Untracked sends a delay that equals a tier straight there, past Redis.
	Untracked *producer.Producer
	arrivals  atomic.Pointer[Arrivals] // of the load under way

	stops   []func() // of what runs until close
	workers sync.WaitGroup
	failed  chan error
}

// NewSite makes one whose topology has a prefix. Close it, and then stop the servers.
func NewSite(ctx context.Context, prefix string, rabbitmq *rabbitmq.Node, store *redisserver.Store) (*Site, error) {
	t, err := topology.New(topology.Config{Prefix: prefix})
	if err != nil {
		return nil, err
	}
	s := &Site{RabbitMQ: rabbitmq, Redis: store, Topology: t, failed: make(chan error, 5)}
	if s.Client, err = redisbridge.NewClient(store.URL()); err != nil {
		return nil, err
	}
	if s.Conn, err = amqp.Dial(rabbitmq.AMQPURL()); err != nil {
		return nil, err
	}
	if _, err := t.Apply(ctx, s.Conn); err != nil {
		return nil, err
	}
	if err := s.consume(); err != nil {
		return nil, err
	}
	if s.Park, err = redisbridge.NewPark(redisbridge.ParkConfig{Client: s.Client, Topology: t}); err != nil {
		return nil, err
	}
	config := producer.Config{AMQPURL: rabbitmq.AMQPURL(), Topology: t, Parker: s.Park}
	if s.Producer, err = producer.New(config); err != nil {
		return nil, err
	}
	config.Untracked = true
	if s.Untracked, err = producer.New(config); err != nil {
		return nil, err
	}
	s.run(ctx, s.Producer.Run)
	s.run(ctx, s.Untracked.Run)
	return s, nil
}

// run keeps something running until the site closes.
func (s *Site) run(ctx context.Context, run func(context.Context) error) {
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

// Bridge runs a bridge in this process, until the site closes. Servers and topology of c are
// those of the site.
func (s *Site) Bridge(ctx context.Context, c redisbridge.Config) error {
	c.Client, c.AMQPURL, c.Topology = s.Client, s.RabbitMQ.AMQPURL(), s.Topology
	bridge, err := redisbridge.New(c)
	if err != nil {
		return err
	}
	s.run(ctx, bridge.Run)
	return nil
}

// Close ends what runs, and disconnects.
func (s *Site) Close() {
	for _, stop := range slices.Backward(s.stops) {
		stop()
	}
	_ = s.Conn.Close() // which ends the consumer
	s.workers.Wait()
	_ = s.Client.Close()
}

// outQueue is where everything comes out.
func (s *Site) outQueue() string { return s.Topology.Prefix() + ".out" }

// consume notes when each message comes out, whichever path it took.
func (s *Site) consume() error {
	ch, err := s.Conn.Channel()
	if err != nil {
		return err
	}
	if _, err := ch.QueueDeclare(s.outQueue(), true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		return err
	}
	if err := ch.QueueBind(s.outQueue(), "#", s.Topology.ReadyExchange(), false, nil); err != nil {
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

// Await returns once every message has come out. It is an error if that takes longer than
// patience, and if the producer or the bridge ends before.
func (s *Site) Await(ctx context.Context, a *Arrivals, patience time.Duration) error {
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

// Begin directs the consumer to a new load of n messages.
func (s *Site) Begin(name string, n int) *Arrivals {
	a := newArrivals(fmt.Sprintf("%s-%d", name, time.Now().UnixNano()), n)
	s.arrivals.Store(a)
	return a
}

// Arrivals returns those of the load that was begun last; nil if there was none.
func (s *Site) Arrivals() *Arrivals { return s.arrivals.Load() }
