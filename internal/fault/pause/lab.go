package pause

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/fault/roles"
	"github.com/delaybridge/delaybridge/internal/fault/world"
	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/producer"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// lab is an installation with the default topology.
type lab struct {
	dir       string
	topology  *topology.Topology
	host      world.Host
	processes []*world.Process
	pair      *servers.Pair
	conn      *amqp.Connection
	producer  *producer.Producer
	park      *redisbridge.Park
	stop      context.CancelFunc
	workers   sync.WaitGroup

	mu       sync.Mutex
	arrivals map[string]time.Time // first ones
	before   int                  // number of them, before the load under way
}

const queue = "pause.out"

func newLab(ctx context.Context) (*lab, error) {
	m := &lab{arrivals: map[string]time.Time{}, stop: func() {}}
	m.host = world.Host{Ctx: ctx, Surprise: func(string) {}} // what it costs is seen in the figures
	var err error
	if m.dir, err = os.MkdirTemp("", "delaybridge-pause-"); err != nil {
		return m, err
	}
	if err := os.Mkdir(filepath.Join(m.dir, "history"), 0o700); err != nil {
		return m, err
	}
	if m.pair, err = servers.Start(ctx, servers.Config{}); err != nil {
		return m, err
	}
	if m.topology, err = topology.New(topology.Config{Prefix: "pause"}); err != nil {
		return m, err
	}
	if m.conn, err = amqp.Dial(m.pair.RabbitMQ.AMQPURL()); err != nil {
		return m, err
	}
	if _, err := m.topology.Apply(ctx, m.conn); err != nil {
		return m, err
	}
	if err := m.consume(); err != nil {
		return m, err
	}
	client, err := redisbridge.NewClient(m.pair.Redis.URL())
	if err != nil {
		return m, err
	}
	if m.park, err = redisbridge.NewPark(redisbridge.ParkConfig{Client: client, Topology: m.topology}); err != nil {
		return m, err
	}
	if m.producer, err = producer.New(producer.Config{AMQPURL: m.pair.RabbitMQ.AMQPURL(), Topology: m.topology, Parker: m.park}); err != nil {
		return m, err
	}
	for n := range world.Bridges {
		p := world.NewProcess(&m.host, roles.Role{
			Kind: roles.Bridge, Name: world.BridgeName(n), Dir: m.dir, Topology: topology.Config{Prefix: "pause"},
			AMQP: m.pair.RabbitMQ.AMQPURL(), Redis: m.pair.Redis.URL(),
		})
		if err := p.Start(nil); err != nil {
			return m, err
		}
		m.processes = append(m.processes, p)
	}
	running, stop := context.WithCancel(ctx)
	m.stop = stop
	m.workers.Go(func() {
		_ = m.producer.Run(running) // what it cannot publish fails the measurement
		_ = client.Close()
	})
	return m, nil
}

func (m *lab) close(ctx context.Context) error {
	m.stop()
	var errs []error
	for _, p := range m.processes {
		errs = append(errs, p.Kill())
	}
	if m.conn != nil {
		errs = append(errs, m.conn.Close())
	}
	m.workers.Wait()
	if m.pair != nil {
		errs = append(errs, m.pair.Stop(ctx))
	}
	if m.dir != "" {
		errs = append(errs, os.RemoveAll(m.dir))
	}
	return errors.Join(errs...)
}

func (m *lab) consume() error {
	ch, err := m.conn.Channel()
	if err != nil {
		return err
	}
	if _, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		return err
	}
	if err := ch.QueueBind(queue, "#", m.topology.ReadyExchange(), false, nil); err != nil {
		return err
	}
	if err := ch.Qos(1000, 0, false); err != nil {
		return err
	}
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	m.workers.Go(func() {
		for d := range deliveries {
			now := time.Now()
			m.mu.Lock()
			if _, again := m.arrivals[d.MessageId]; !again {
				m.arrivals[d.MessageId] = now
			}
			m.mu.Unlock()
			_ = d.Ack(false)
		}
	})
	return nil
}
