package world

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/fault/roles"
	"github.com/delaybridge/delaybridge/internal/fault/shop"
	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/servers/databases"
	"github.com/delaybridge/delaybridge/internal/servers/rabbitmq"
	"github.com/delaybridge/delaybridge/internal/servers/redisserver"
	"github.com/delaybridge/delaybridge/topology"
)

const (
	// startWithin is what servers and processes get to answer, and to come to rest, that have just begun.
	startWithin = 2 * time.Minute
	// SettleIn is how long a new quorum queue is left alone: RabbitMQ forgets one
	// that is younger than about a second when it is killed.
	SettleIn = 3 * time.Second
)

func (w *World) startRabbitMQ(clustered bool) error {
	if !clustered {
		node, err := servers.StartRabbitMQ(w.ctx, servers.Config{})
		if err == nil {
			w.Nodes = []*rabbitmq.Node{node}
		}
		return err
	}
	var err error
	if w.Cluster, err = servers.StartCluster(w.ctx, servers.Config{}); err == nil {
		w.Nodes = w.Cluster.Nodes()
	}
	return err
}

// build starts what keeps the orders, and fills it.
func (w *World) build(stores []string) error {
	for _, name := range stores {
		at, err := w.startStore(name)
		if err == nil {
			err = at.Furnish(w.ctx)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		w.shops = append(w.shops, at)
	}
	return nil
}

func (w *World) startStore(name string) (shop.StoreAt, error) {
	at := shop.StoreAt{Name: name, At: filepath.Join(w.Dir, "orders.db")}
	var err error
	switch name {
	case shop.Postgres:
		if w.PostgreSQL, err = databases.StartPostgreSQL(w.ctx); err == nil {
			at.At = w.PostgreSQL.URL()
		}
	case shop.MySQL:
		if w.MariaDB, err = databases.StartMariaDB(w.ctx); err == nil {
			at.At = w.MariaDB.DSN() + "fault"
		}
	}
	return at, err
}

// Apply applies a topology.
func (w *World) Apply(t *topology.Topology) error {
	conn, err := amqp.Dial(w.Nodes[0].AMQPURL())
	if err != nil {
		return err
	}
	_, err = t.Apply(w.ctx, conn)
	return errors.Join(err, conn.Close())
}

// Manage asks the management API of the first node that answers.
func (w *World) Manage(method, path, body string) ([]byte, error) {
	var errs []error
	for _, node := range w.Nodes {
		ctx, cancel := context.WithTimeout(w.ctx, 15*time.Second)
		answer, err := rabbitmq.Manage(ctx, node.ManagementURL(), method, path, body)
		cancel()
		if err == nil {
			return answer, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// VHost is the default virtual host in a path of the management API.
const VHost = "%2F"

// WithChannel opens a channel of the injector's own, past all links. What it gets may be what the client
// library alone cannot decode.
func (w *World) WithChannel(do func(*amqp.Channel) error) error {
	conn, err := broker.New(broker.Config{URL: w.Nodes[0].AMQPURL(), Name: "injector", GiveUpAfter: startWithin})
	if err != nil {
		return err
	}
	ctx, hangUp := context.WithCancel(w.ctx)
	ended := make(chan error, 1)
	go func() { ended <- conn.Run(ctx) }()
	ch, err := conn.Channel(ctx)
	if err == nil {
		err = do(ch)
	}
	hangUp()
	return errors.Join(err, <-ended)
}

// WithRedis opens a connection to Redis of the injector's own.
func (w *World) WithRedis(do func(*redis.Client) error) error {
	return w.WithRedisWithin(2*time.Minute, do)
}

// WithRedisWithin is [World.WithRedis] that gives each answer so much time.
func (w *World) WithRedisWithin(patience time.Duration, do func(*redis.Client) error) error {
	options, err := redis.ParseURL(w.Redis.URL())
	if err != nil {
		return err
	}
	options.MaxRetries, options.DialTimeout, options.ReadTimeout = -1, patience, patience
	client := redis.NewClient(options)
	return errors.Join(do(client), client.Close())
}

// MoveClients has the processes that are at home at one node talk to another one.
func (w *World) MoveClients(home, to int) error {
	var errs []error
	for _, l := range w.Links(RabbitMQ) {
		if w.homes[l.Name] == home {
			errs = append(errs, l.lead(w.Nodes[to].AMQPURL()))
		}
	}
	return errors.Join(errs...)
}

// MoveRedis has the address of Redis lead to another server, and stops the old one.
func (w *World) MoveRedis(other *redisserver.Node) error {
	var err error
	for _, l := range w.Links(Redis) {
		err = errors.Join(err, l.lead(other.URL()))
	}
	old := w.Redis
	w.Redis = other
	if err := errors.Join(err, old.Stop(w.ctx)); err != nil {
		return fmt.Errorf("move Redis: %w", err)
	}
	return nil
}

// SaveLogs saves the logs of RabbitMQ and Redis beside the history, for the analysis of a failed run.
func (w *World) SaveLogs(ctx context.Context) {
	for n, node := range w.Nodes {
		if err := node.SaveLog(ctx, filepath.Join(w.Dir, fmt.Sprintf("rabbitmq-%d.log", n))); err != nil {
			w.Say("%v", err)
		}
	}
	if w.Redis != nil {
		if err := w.Redis.SaveLog(ctx, filepath.Join(w.Dir, "redis.log")); err != nil {
			w.Say("%v", err)
		}
	}
}

// providePython makes the shop's program and what it needs.
func (w *World) providePython(ctx context.Context) error {
	if err := servers.EnsureClients(ctx, map[string]string{
		"python3-pika": "/usr/lib/python3/dist-packages/pika", "python3-psycopg2": "/usr/lib/python3/dist-packages/psycopg2",
	}); err != nil {
		return err
	}
	return roles.WritePython(w.Dir)
}
