package fault

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
	"github.com/delaybridge/delaybridge/topology"
)

// worldConfig says what there is in a world.
type worldConfig struct {
	dir       string // holds the history, the shop's SQLite file and logs
	seed      uint64
	clustered bool     // three nodes of RabbitMQ rather than one
	stores    []string // names order stores
	programs  programs
	say       func(format string, args ...any) // to who waits for the run
}

// world is one installation: servers, links and processes.
type world struct {
	worldConfig
	ctx      context.Context // of the run
	topology *topology.Topology
	history  *history.Writer
	network  *network

	cluster *servers.Cluster // nil for a single node
	nodes   []*servers.RabbitMQ
	redis   *servers.Redis

	shops      []shop.StoreAt
	postgreSQL *servers.PostgreSQL // nil where no order is kept there
	mariaDB    *servers.MariaDB    // likewise

	host      host
	processes map[string]*process
	homes     map[string]int // node at which a link ends, unless that is down

	mu        sync.Mutex
	surprised []string
}

// newWorld starts servers. It must be closed also after an error.
func newWorld(ctx context.Context, c worldConfig) (*world, error) {
	w := &world{worldConfig: c, ctx: ctx, network: newNetwork(), processes: map[string]*process{}, homes: map[string]int{}}
	w.host = host{ctx, c.programs, w.surprise}
	if err := os.MkdirAll(w.historyDir(), 0o700); err != nil {
		return w, err
	}
	var err error
	if w.history, err = history.Create(filepath.Join(w.historyDir(), "injector.jsonl"), "injector"); err != nil {
		return w, err
	}
	if w.topology, err = topology.New(shop.Topology()); err != nil {
		return w, err
	}
	var shopErr, brokerErr, redisErr, pythonErr error
	var all sync.WaitGroup
	all.Go(func() { shopErr = w.build(c.stores) })
	all.Go(func() { brokerErr = w.startRabbitMQ(c.clustered) })
	all.Go(func() { w.redis, redisErr = servers.StartRedis(ctx, servers.Config{}) })
	all.Go(func() { pythonErr = w.providePython(ctx) })
	all.Wait()
	if err := errors.Join(shopErr, brokerErr, redisErr, pythonErr); err != nil {
		return w, err
	}
	return w, w.furnish(w.topology)
}

// links lists the links of all processes to one server, rabbitMQ or redisServer, by their names.
func (w *world) links(server string) []*link { return w.network.to(server) }

// close ends everything that is left, and keeps the folder.
func (w *world) close(ctx context.Context) error {
	var errs []error
	for _, p := range w.processes {
		if p.program != nil {
			errs = append(errs, p.kill())
		}
	}
	w.network.close()
	if w.cluster != nil {
		errs = append(errs, w.cluster.Stop(ctx))
	} else {
		for _, node := range w.nodes {
			errs = append(errs, node.Stop(ctx))
		}
	}
	if w.redis != nil {
		errs = append(errs, w.redis.Stop(ctx))
	}
	if w.postgreSQL != nil {
		errs = append(errs, w.postgreSQL.Stop(ctx))
	}
	if w.mariaDB != nil {
		errs = append(errs, w.mariaDB.Stop(ctx))
	}
	if w.history != nil {
		errs = append(errs, w.history.Close())
	}
	return errors.Join(errs...)
}

func (w *world) note(e history.Event) {
	if err := w.history.Write(e); err != nil {
		w.surprise(err.Error())
	}
}

// surprise notes what no scenario has asked for.
func (w *world) surprise(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.surprised = append(w.surprised, what)
}

// surprises returns what no scenario has asked for.
func (w *world) surprises() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.surprised)
}
