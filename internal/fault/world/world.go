// Package world is what a fault run breaks and puts right again: servers, the links to them, and
// the processes that play roles.
//
// Each process has links of its own, so that one can be broken alone, and lives many times: one that
// ends unasked is started again, as a service manager would, and counts as a surprise. An operator sends on
// what has come to the unrouted queue. [World.Rest] waits until nothing is under way any more, and
// looks at what is left, for package history to judge.
package world

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/delaybridge/delaybridge/internal/fault/history"
	"github.com/delaybridge/delaybridge/internal/fault/shop"
	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/servers/databases"
	"github.com/delaybridge/delaybridge/internal/servers/rabbitmq"
	"github.com/delaybridge/delaybridge/internal/servers/redisserver"
	"github.com/delaybridge/delaybridge/topology"
)

// Config says what there is in a world.
type Config struct {
	Dir       string // holds the history, the shop's SQLite file and logs
	Seed      uint64
	Clustered bool     // three nodes of RabbitMQ rather than one
	Stores    []string // names order stores
	Programs  Programs
	Say       func(format string, args ...any) // to who waits for the run
}

// World is one installation: servers, links and processes.
type World struct {
	Config
	ctx      context.Context // of the run
	Topology *topology.Topology
	history  *history.Writer
	network  *network

	Cluster *rabbitmq.Cluster // nil for a single node
	Nodes   []*rabbitmq.Node
	Redis   *redisserver.Node

	shops      []shop.StoreAt
	PostgreSQL *databases.PostgreSQL // nil where no order is kept there
	MariaDB    *databases.MariaDB    // likewise

	host      Host
	Processes map[string]*Process
	homes     map[string]int // node at which a link ends, unless that is down

	mu        sync.Mutex
	surprised []string
}

// New starts servers. It must be closed also after an error.
func New(ctx context.Context, c Config) (*World, error) {
	w := &World{Config: c, ctx: ctx, network: newNetwork(), Processes: map[string]*Process{}, homes: map[string]int{}}
	w.host = Host{Ctx: ctx, Programs: c.Programs, Surprise: w.Surprise}
	if err := os.MkdirAll(w.HistoryDir(), 0o700); err != nil {
		return w, err
	}
	var err error
	if w.history, err = history.Create(filepath.Join(w.HistoryDir(), "injector.jsonl"), "injector"); err != nil {
		return w, err
	}
	if w.Topology, err = topology.New(shop.Topology()); err != nil {
		return w, err
	}
	var shopErr, brokerErr, redisErr, pythonErr error
	var all sync.WaitGroup
	all.Go(func() { shopErr = w.build(c.Stores) })
	all.Go(func() { brokerErr = w.startRabbitMQ(c.Clustered) })
	all.Go(func() { w.Redis, redisErr = servers.StartRedis(ctx, servers.Config{}) })
	all.Go(func() { pythonErr = w.providePython(ctx) })
	all.Wait()
	if err := errors.Join(shopErr, brokerErr, redisErr, pythonErr); err != nil {
		return w, err
	}
	return w, w.Apply(w.Topology)
}

// Links lists the links of all processes to one server, RabbitMQ or Redis, by their names.
func (w *World) Links(server string) []*Link { return w.network.to(server) }

// Close ends everything that is left, and keeps the folder.
func (w *World) Close(ctx context.Context) error {
	var errs []error
	for _, p := range w.Processes {
		if p.program != nil {
			errs = append(errs, p.Kill())
		}
	}
	w.network.close()
	if w.Cluster != nil {
		errs = append(errs, w.Cluster.Stop(ctx))
	} else {
		for _, node := range w.Nodes {
			errs = append(errs, node.Stop(ctx))
		}
	}
	if w.Redis != nil {
		errs = append(errs, w.Redis.Stop(ctx))
	}
	if w.PostgreSQL != nil {
		errs = append(errs, w.PostgreSQL.Stop(ctx))
	}
	if w.MariaDB != nil {
		errs = append(errs, w.MariaDB.Stop(ctx))
	}
	if w.history != nil {
		errs = append(errs, w.history.Close())
	}
	return errors.Join(errs...)
}

// Note writes an event of the injector's own into the history.
func (w *World) Note(e history.Event) {
	if err := w.history.Write(e); err != nil {
		w.Surprise(err.Error())
	}
}

// Surprise notes what no scenario has asked for.
func (w *World) Surprise(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.surprised = append(w.surprised, what)
}

// Surprises returns what no scenario has asked for.
func (w *World) Surprises() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.surprised)
}
