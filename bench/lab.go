package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/producer"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// lab is the installation that is measured: topology, producer and bridge over
// one pair of servers, a queue for all that comes out, and the bare tiers.
type lab struct {
	topology *topology.Topology
	client   redis.UniversalClient
	conn     *amqp.Connection // of the consumer
	bare     *amqp.Connection // of the bare path, as the producer has its own
	producer *producer.Producer
	paths    []path
	arrivals atomic.Pointer[arrivals] // of the load under way

	stop    context.CancelFunc
	workers sync.WaitGroup
	failed  chan error
}

const outQueue = "bench.out"

func newLab(ctx context.Context, pair *servers.Pair) (*lab, error) {
	t, err := topology.New(topology.Config{Prefix: "bench"})
	if err != nil {
		return nil, err
	}
	l := &lab{topology: t, failed: make(chan error, 2)}
	if l.client, err = redisbridge.NewClient(pair.Redis.URL()); err != nil {
		return nil, err
	}
	if l.conn, err = amqp.Dial(pair.RabbitMQ.AMQPURL()); err != nil {
		return nil, err
	}
	if _, err := t.Apply(ctx, l.conn); err != nil {
		return nil, err
	}
	if err := l.consume(); err != nil {
		return nil, err
	}
	park, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: l.client, Topology: t})
	if err != nil {
		return nil, err
	}
	if l.producer, err = producer.New(producer.Config{URL: pair.RabbitMQ.AMQPURL(), Topology: t, Parker: park}); err != nil {
		return nil, err
	}
	bridge, err := redisbridge.New(redisbridge.Config{Client: l.client, AMQPURL: pair.RabbitMQ.AMQPURL(), Topology: t})
	if err != nil {
		return nil, err
	}
	if l.bare, err = amqp.Dial(pair.RabbitMQ.AMQPURL()); err != nil {
		return nil, err
	}
	raw, err := newRawPath(l.bare, t)
	if err != nil {
		return nil, err
	}
	l.paths = []path{raw, exactPath{l.producer}, arbitraryPath{l.producer}}

	ctx, l.stop = context.WithCancel(ctx)
	for _, run := range []func(context.Context) error{l.producer.Run, bridge.Run} {
		l.workers.Go(func() {
			if err := run(ctx); err != nil {
				l.failed <- err
			}
		})
	}
	return l, nil
}

func (l *lab) close() {
	l.stop()
	_ = l.bare.Close()
	_ = l.conn.Close() // which ends the consumer
	l.workers.Wait()
	_ = l.client.Close()
}

// consume notes when each message comes out, whichever path it took.
func (l *lab) consume() error {
	ch, err := l.conn.Channel()
	if err != nil {
		return err
	}
	if _, err := ch.QueueDeclare(outQueue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		return err
	}
	if err := ch.QueueBind(outQueue, "#", l.topology.ReadyExchange(), false, nil); err != nil {
		return err
	}
	if err := ch.Qos(1000, 0, false); err != nil {
		return err
	}
	deliveries, err := ch.Consume(outQueue, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	l.workers.Go(func() {
		for d := range deliveries {
			now := time.Now()
			if a := l.arrivals.Load(); a != nil {
				a.note(d.MessageId, now)
			}
			_ = d.Ack(false)
		}
	})
	return nil
}

// arrivals is when each message of one load came out.
type arrivals struct {
	load  string
	at    []time.Time
	again int
	left  int
	done  chan struct{}
}

func newArrivals(load string, n int) *arrivals {
	return &arrivals{load: load, at: make([]time.Time, n), left: n, done: make(chan struct{})}
}

func (a *arrivals) id(i int) string { return a.load + "/" + strconv.Itoa(i) }

// note is called by one goroutine.
func (a *arrivals) note(id string, now time.Time) {
	number, ours := strings.CutPrefix(id, a.load+"/")
	i, err := strconv.Atoi(number)
	if !ours || err != nil || i >= len(a.at) {
		return
	}
	if !a.at[i].IsZero() {
		a.again++
		return
	}
	a.at[i] = now
	if a.left--; a.left == 0 {
		close(a.done)
	}
}

// await returns once every message has come out.
func (l *lab) await(ctx context.Context, a *arrivals) error {
	select {
	case <-a.done:
		return nil
	case err := <-l.failed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(patience):
		return errors.New("messages are missing after " + patience.String())
	}
}

// begin directs the consumer to a new load of n messages.
func (l *lab) begin(p path, kind string, n int) *arrivals {
	a := newArrivals(fmt.Sprintf("%s-%s-%d", p.name(), kind, time.Now().UnixNano()), n)
	l.arrivals.Store(a)
	return a
}
