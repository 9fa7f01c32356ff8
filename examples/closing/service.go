package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/consumer/ledger"
	ledgers "github.com/delaybridge/delaybridge/consumer/ledger/postgres"
	"github.com/delaybridge/delaybridge/consumer/orders"
	"github.com/delaybridge/delaybridge/consumer/orders/postgres"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/producer"
	"github.com/delaybridge/delaybridge/topology"
)

const (
	queue      = "closing"
	routingKey = "order.unpaid"
)

// How long marks of handled messages are kept, and how often old ones are dropped.
const (
	keepMarks  = 7 * 24 * time.Hour
	sweepEvery = time.Hour
)

// drain is how long requests may go on when the shop closes.
const drain = 10 * time.Second

// config is what a shop needs.
type config struct {
	amqpURL, databaseURL string
	topology             *topology.Topology
	listener             net.Listener
	payWithin            time.Duration
	observe              func(consumer.Observation) // for tests
	log                  *slog.Logger
}

// shop is the service.
type shop struct {
	config
	store    *postgres.Store
	producer *producer.Producer
}

// serve runs the service until ctx ends.
func serve(ctx context.Context, c config) error {
	pool, err := pgxpool.New(ctx, c.databaseURL)
	if err != nil {
		return err
	}
	defer pool.Close()
	s := &shop{config: c, store: postgres.New(pool)}
	marks := ledgers.New(pool)
	if err := errors.Join(s.store.Migrate(ctx), marks.Migrate(ctx)); err != nil {
		return err
	}
	if s.producer, err = producer.New(producer.Config{AMQPURL: c.amqpURL, Topology: c.topology, Logger: c.log}); err != nil {
		return err
	}
	closing, err := consumer.New(consumer.Config{
		AMQPURL: c.amqpURL, Topology: c.topology, Queue: queue, Bind: []string{routingKey},
		// The closer finds the ledger's transaction in its context: the order is closed,
		// its stock given back and the message marked, or nothing of it.
		Handler: &orders.Closer{Store: s.store}, Ledger: marks,
		Observe: c.observe, Logger: c.log,
	})
	if err != nil {
		return err
	}

	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return s.producer.Run(ctx) })
	all.Go(func() error { return closing.Run(ctx) })
	all.Go(func() error { return s.answer(ctx) })
	all.Go(func() error { return s.catchUp(ctx) })
	all.Go(func() error {
		ledger.Sweep(ctx, marks, keepMarks, sweepEvery, c.log)
		return nil
	})
	return all.Wait()
}

// answer answers requests until ctx ends.
func (s *shop) answer(ctx context.Context) error {
	server := http.Server{Handler: s.routes(), ReadHeaderTimeout: drain, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn)}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(s.listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	return server.Shutdown(patient)
}

// place places an order, and then publishes the message that will close it. A
// process that dies in between leaves an order without a message: that is what
// catchUp is for.
func (s *shop) place(ctx context.Context, o orders.Order) error {
	if err := s.store.Place(ctx, o); err != nil {
		return err
	}
	return s.publish(ctx, o.ID, message.After(s.payWithin))
}

// catchUp publishes a message for each order that is still pending: for most of them
// a second one, which does no harm, since it has the same ID.
func (s *shop) catchUp(ctx context.Context) error {
	all, err := s.store.Orders(ctx)
	if err != nil {
		return err
	}
	for _, o := range all {
		if o.State != orders.Pending {
			continue
		}
		if err := s.publish(ctx, o.ID, message.At(o.Placed.Add(s.payWithin))); err != nil && ctx.Err() == nil {
			return err // the next start tries again
		}
	}
	return nil
}

func (s *shop) publish(ctx context.Context, id string, when message.When) error {
	_, err := s.producer.Publish(ctx, message.Message{ID: id, RoutingKey: routingKey}, when)
	return err
}
