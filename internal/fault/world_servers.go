package fault

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/delaybridge/delaybridge/internal/fault/roles"
	"github.com/delaybridge/delaybridge/internal/fault/shop"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/topology"
)

const (
	// startWithin is what servers and processes get to answer, and to come to rest, that have just begun.
	startWithin = 2 * time.Minute
	// settleIn is how long a new quorum queue is left alone: RabbitMQ forgets one
	// that is younger than about a second when it is killed.
	settleIn = 3 * time.Second
)

func (w *world) startRabbitMQ(clustered bool) error {
	if !clustered {
		node, err := servers.StartRabbitMQ(w.ctx, servers.Config{})
		if err == nil {
			w.nodes = []*servers.RabbitMQ{node}
		}
		return err
	}
	var err error
	if w.cluster, err = servers.StartCluster(w.ctx, servers.Config{}); err == nil {
		w.nodes = w.cluster.Nodes()
	}
	return err
}

// build starts what keeps the orders, and fills it.
func (w *world) build(stores []string) error {
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

func (w *world) startStore(name string) (shop.StoreAt, error) {
	at := shop.StoreAt{Name: name, At: filepath.Join(w.dir, "orders.db")}
	var err error
	switch name {
	case shop.Postgres:
		if w.postgreSQL, err = servers.StartPostgreSQL(w.ctx); err == nil {
			at.At = w.postgreSQL.URL()
		}
	case shop.MySQL:
		if w.mariaDB, err = servers.StartMariaDB(w.ctx); err == nil {
			at.At = w.mariaDB.DSN() + "fault"
		}
	}
	return at, err
}

// furnish applies a topology.
func (w *world) furnish(t *topology.Topology) error {
	conn, err := amqp.Dial(w.nodes[0].AMQPURL())
	if err != nil {
		return err
	}
	_, err = t.Apply(w.ctx, conn)
	return errors.Join(err, conn.Close())
}

// manage asks the management API of the first node that answers.
func (w *world) manage(method, path, body string) ([]byte, error) {
	var errs []error
	for _, node := range w.nodes {
		ctx, cancel := context.WithTimeout(w.ctx, 15*time.Second)
		answer, err := servers.Manage(ctx, node.ManagementURL(), method, path, body)
		cancel()
		if err == nil {
			return answer, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// vhost is the default virtual host in a path of the management API.
const vhost = "%2F"

// channel opens a channel of the injector's own, past all links. What it gets may be what the client
// library alone cannot decode.
func (w *world) channel(do func(*amqp.Channel) error) error {
	conn, err := broker.New(broker.Config{URL: w.nodes[0].AMQPURL(), Name: "injector", GiveUpAfter: startWithin})
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

// store opens a connection to Redis of the injector's own.
func (w *world) store(do func(*redis.Client) error) error { return w.storeWithin(2*time.Minute, do) }

// storeWithin gives each answer so much time.
func (w *world) storeWithin(patience time.Duration, do func(*redis.Client) error) error {
	options, err := redis.ParseURL(w.redis.URL())
	if err != nil {
		return err
	}
	options.MaxRetries, options.DialTimeout, options.ReadTimeout = -1, patience, patience
	client := redis.NewClient(options)
	return errors.Join(do(client), client.Close())
}

// move has the processes that are at home at one node talk to another one.
func (w *world) move(home, to int) error {
	var errs []error
	for _, l := range w.links(rabbitMQ) {
		if w.homes[l.name] == home {
			errs = append(errs, l.lead(w.nodes[to].AMQPURL()))
		}
	}
	return errors.Join(errs...)
}

// moveRedis has the address of Redis lead to another server, and stops the old one.
func (w *world) moveRedis(other *servers.Redis) error {
	var err error
	for _, l := range w.links(redisServer) {
		err = errors.Join(err, l.lead(other.URL()))
	}
	old := w.redis
	w.redis = other
	if err := errors.Join(err, old.Stop(w.ctx)); err != nil {
		return fmt.Errorf("move Redis: %w", err)
	}
	return nil
}

// saveLogs saves the logs of RabbitMQ and Redis beside the history, for the analysis of a failed run.
func (w *world) saveLogs(ctx context.Context) {
	for n, node := range w.nodes {
		if err := node.SaveLog(ctx, filepath.Join(w.dir, fmt.Sprintf("rabbitmq-%d.log", n))); err != nil {
			w.say("%v", err)
		}
	}
	if w.redis != nil {
		if err := w.redis.SaveLog(ctx, filepath.Join(w.dir, "redis.log")); err != nil {
			w.say("%v", err)
		}
	}
}

// providePython makes the shop's program and what it needs.
func (w *world) providePython(ctx context.Context) error {
	if err := servers.EnsureClients(ctx, map[string]string{
		"python3-pika": "/usr/lib/python3/dist-packages/pika", "python3-psycopg2": "/usr/lib/python3/dist-packages/psycopg2",
	}); err != nil {
		return err
	}
	return roles.WritePython(w.dir)
}
