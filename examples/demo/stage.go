package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/consumer/orders"
	"github.com/delaybridge/delaybridge/consumer/orders/sqlite"
	"github.com/delaybridge/delaybridge/producer"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// curtain is when the demo ends at the latest: what has not come by then is
// lost. The last message is due after 35 s.
const curtain = 40 * time.Second

// stage is what the demo plays on.
type stage struct {
	amqpURL  string
	redis    redis.UniversalClient
	topology *topology.Topology
	store    *sqlite.Store
	log      *slog.Logger
}

// prepare declares the topology and opens the shop's files in dir.
func prepare(ctx context.Context, amqpURL, redisURL, dir string, errs io.Writer) (*stage, error) {
	t, err := topology.New(topology.Config{})
	if err != nil {
		return nil, err
	}
	conn, err := amqp.Dial(amqpURL)
	if err != nil {
		return nil, fmt.Errorf("connect to RabbitMQ: %w", err)
	}
	_, err = t.Apply(ctx, conn)
	if err := errors.Join(err, conn.Close()); err != nil {
		return nil, err
	}
	client, err := redisbridge.NewClient(redisURL)
	if err != nil {
		return nil, err
	}
	store, err := sqlite.Open(ctx, filepath.Join(dir, "orders.db"))
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &stage{
		amqpURL: amqpURL, redis: client, topology: t, store: store,
		log: slog.New(slog.NewTextHandler(errs, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}, nil
}

func (s *stage) close() error { return errors.Join(s.store.Shutdown(), s.redis.Close()) }

// play runs a bridge, a consumer and a producer, and lets the customers in. It
// ends when every order is settled, or with the curtain.
func (s *stage) play(ctx context.Context, out *os.File) (totals, error) {
	customers := plan()
	v := newView(out, len(customers))
	l := newLedger(customers, v.tell)
	shop := &shop{store: s.store, ledger: l, outcomes: map[string][]orders.Outcome{}}

	park, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: s.redis, Topology: s.topology})
	if err != nil {
		return totals{}, err
	}
	bridge, err := redisbridge.New(redisbridge.Config{
		Client: s.redis, AMQPURL: s.amqpURL, Topology: s.topology, Name: "demo", Observe: l.observe, Logger: s.log,
	})
	if err != nil {
		return totals{}, err
	}
	closing, err := consumer.New(consumer.Config{
		AMQPURL: s.amqpURL, Topology: s.topology, Queue: queue, Bind: []string{routingKey},
		Handler: &orders.Closer{Store: s.store, Closed: shop.closed}, Observe: shop.observe, Logger: s.log,
	})
	if err != nil {
		return totals{}, err
	}
	if shop.producer, err = s.newProducer(park); err != nil {
		return totals{}, err
	}

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cast, ctx := errgroup.WithContext(ctx)
	for _, run := range []func(context.Context) error{bridge.Run, closing.Run, shop.producer.Run} {
		cast.Go(func() error { return run(ctx) })
	}
	cast.Go(func() error {
		defer stop()
		select {
		case <-closing.Ready(): // before that, what is due at once would be unrouted
		case <-ctx.Done():
			return nil
		}
		l.begin()
		cast.Go(func() error { return shop.open(ctx, customers) })
		watch(ctx, v, l)
		return nil
	})
	if err := cast.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return totals{}, err
	}
	return s.account(l)
}

// newProducer returns one that shows both ways: a delay that equals a tier goes straight there,
// any other into Redis.
func (s *stage) newProducer(park producer.Parker) (*producer.Producer, error) {
	return producer.New(producer.Config{AMQPURL: s.amqpURL, Topology: s.topology, Parker: park, Untracked: true, Logger: s.log})
}

// account compares what was seen with what is on record.
func (s *stage) account(l *ledger) (totals, error) {
	ctx := context.Background()
	recorded, err := s.store.Orders(ctx)
	if err != nil {
		return totals{}, err
	}
	stock, err := s.store.Stock(ctx)
	if err != nil {
		return totals{}, err
	}
	left := 0
	for _, line := range stock {
		left += line.Available
	}
	return add(l.picture().rows, recorded, pieces(plan()), left), nil
}
