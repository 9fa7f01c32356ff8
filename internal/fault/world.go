package fault

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/fault/history"
	"github.com/delaybridge/delaybridge/internal/fault/skew"
	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/topology"
)

const (
	lease        = 2 * time.Second
	repairEvery  = 2 * time.Second
	skewVariable = skew.Variable
	// settleIn is how long a new quorum queue is left alone: RabbitMQ forgets one
	// that is younger than about a second when it is killed.
	settleIn = 3 * time.Second
	// operatorEvery is how often somebody looks into the unrouted queue.
	operatorEvery = 5 * time.Second
)

// world is one installation: servers, links and processes.
type world struct {
	ctx      context.Context // of the run
	dir      string          // holds the history, the shop's SQLite file and logs
	seed     uint64
	topology *topology.Topology
	history  *history.Writer
	network  *network
	locks    locks

	cluster *servers.Cluster // nil for a single node
	nodes   []*servers.RabbitMQ
	redis   *servers.Redis

	stores     []storeAt
	postgreSQL *servers.PostgreSQL // nil where no order is kept there
	mariaDB    *servers.MariaDB    // likewise

	processes      map[string]*process
	homes          map[string]int         // node at which a link ends, unless that is down
	skewedProgram  func() (string, error) // builds, once, a program for roles whose clock can be wrong
	earlierProgram func() (string, error) // builds, once, the program of the earlier release

	say func(format string, args ...any) // to who waits for the run

	mu        sync.Mutex
	surprises []string
	faults    int
	injected  map[string]int // by scenario
}

// The processes of a world.
const (
	customersName = "customers"
	bridges       = 2
	consumers     = 2
	relays        = 2
	slowConsumer  = "consumer-slow"
	plainConsumer = "consumer-plain"
	mailConsumer  = "consumer-mails"
	stranger      = "stranger"
	strangersOwn  = "consumer-strangers"
)

func bridgeName(n int) string   { return fmt.Sprintf("bridge-%d", n+1) }
func consumerName(n int) string { return fmt.Sprintf("consumer-%d", n+1) }
func relayName(n int) string    { return fmt.Sprintf("relay-%d", n+1) }

// newWorld starts servers and processes. It must be closed also after an error.
func newWorld(ctx context.Context, dir string, seed uint64, clustered bool, stores []string) (*world, error) {
	w := &world{ctx: ctx, dir: dir, seed: seed, network: newNetwork(), processes: map[string]*process{}, homes: map[string]int{}, injected: map[string]int{}}
	if err := os.MkdirAll(filepath.Join(dir, "history"), 0o700); err != nil {
		return w, err
	}
	var err error
	if w.history, err = history.Create(filepath.Join(dir, "history", "injector.jsonl"), "injector"); err != nil {
		return w, err
	}
	if w.topology, err = topology.New(shortDelays()); err != nil {
		return w, err
	}
	var shopErr, brokerErr, redisErr, pythonErr error
	var all sync.WaitGroup
	all.Go(func() { shopErr = w.build(stores) })
	all.Go(func() { brokerErr = w.startRabbitMQ(clustered) })
	all.Go(func() { w.redis, redisErr = servers.StartRedis(ctx, servers.Config{}) })
	all.Go(func() { pythonErr = w.providePython(ctx) })
	all.Wait()
	if err := errors.Join(shopErr, brokerErr, redisErr, pythonErr); err != nil {
		return w, err
	}
	return w, w.furnish(w.topology)
}

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
			err = at.furnish(w.ctx)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		w.stores = append(w.stores, at)
	}
	return nil
}

func (w *world) startStore(name string) (storeAt, error) {
	at := storeAt{Name: name, At: filepath.Join(w.dir, "orders.db")}
	var err error
	switch name {
	case storePostgres:
		if w.postgreSQL, err = servers.StartPostgreSQL(w.ctx); err == nil {
			at.At = w.postgreSQL.URL()
		}
	case storeMySQL:
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

// populate starts the processes, each with links of its own; customers come for duration.
func (w *world) populate(rate float64, duration time.Duration) error {
	for n := range consumers {
		if err := w.employ(role{Kind: "consumer", Name: consumerName(n), Seed: w.seed, Queue: queue, Bind: []string{closingKey, mailKey}}, n); err != nil {
			return err
		}
	}
	if err := w.employ(role{Kind: "consumer", Name: slowConsumer, Seed: w.seed, Queue: slowQueue, Bind: []string{slowKey}}, 2); err != nil {
		return err
	}
	if err := w.employ(role{Kind: "consumer", Name: plainConsumer, Seed: w.seed, Queue: plainQueue, Bind: []string{plainKey}}, 1); err != nil {
		return err
	}
	if err := w.employ(role{Kind: "consumer", Name: mailConsumer, Seed: w.seed, Queue: mailQueue, Bind: []string{mailKey}}, 0); err != nil {
		return err
	}
	for n := range bridges {
		if err := w.employ(role{Kind: "bridge", Name: bridgeName(n), Bridge: bridgeRole{lease, repairEvery}}, n+1); err != nil {
			return err
		}
	}
	for n := range relays {
		if err := w.employ(role{Kind: "relay", Name: relayName(n)}, n+1); err != nil {
			return err
		}
	}
	if err := w.employ(role{Kind: "consumer", Name: strangersOwn, Seed: w.seed, Queue: strangersQueue, Bind: []string{"#"}}, 2); err != nil {
		return err
	}
	if w.hasPython() {
		if err := w.employPython(role{Kind: "python consumer", Name: pythonConsumer}, 1); err != nil {
			return err
		}
	}
	pause(w.ctx, settleIn)
	if err := w.bindEntry(); err != nil {
		return err
	}
	began := history.Now()
	if w.hasPython() {
		if err := w.employPython(role{Kind: "python customers", Name: pythonCustomers, Rate: pythonShare * rate, Began: began}, 0); err != nil {
			return err
		}
	}
	if err := w.employ(role{Kind: "stranger", Name: stranger, Seed: w.seed, Rate: rate, Began: began}, 1); err != nil {
		return err
	}
	return w.employ(role{Kind: "customers", Name: customersName, Seed: w.seed, Rate: rate, Began: began, Ends: began + duration.Microseconds()}, 2)
}

func (w *world) hasPython() bool { return w.postgreSQL != nil }

// customers names the processes that place orders.
func (w *world) customers() []string {
	if w.hasPython() {
		return []string{customersName, stranger, pythonCustomers}
	}
	return []string{customersName, stranger}
}

// bindEntry has the consumers' queues get what was published to the tracked entry. A consumer
// does so for the default one alone.
func (w *world) bindEntry() error {
	var err error
	for began := time.Now(); time.Since(began) < startWithin && w.ctx.Err() == nil; pause(w.ctx, 100*time.Millisecond) {
		err = w.channel(func(ch *amqp.Channel) error {
			exchange := w.topology.ReadyExchangeOf(trackedEntry().Name)
			return errors.Join(ch.QueueBind(queue, closingKey, exchange, false, nil), ch.QueueBind(queue, mailKey, exchange, false, nil),
				ch.QueueBind(mailQueue, mailKey, exchange, false, nil))
		})
		if err == nil {
			break // the consumers have declared their queues
		}
	}
	return err
}

// employ starts a process at one of the nodes.
func (w *world) employ(r role, node int) error {
	var err error
	node %= len(w.nodes)
	link := r.Name + " - " + rabbitMQ
	w.homes[link] = node
	if r.AMQP, err = w.network.connect(link, w.nodes[node].AMQPURL()); err != nil {
		return err
	}
	if r.Redis, err = w.network.connect(r.Name+" - "+redisServer, w.redis.URL()); err != nil {
		return err
	}
	r.Dir, r.Topology, r.Stores = w.dir, shortDelays(), w.stores
	p := &process{run: w, role: r}
	w.processes[r.Name] = p
	return p.start(nil)
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
	w.surprises = append(w.surprises, what)
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
var vhost = url.PathEscape("/") //nolint:gochecknoglobals // a constant

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

// locks has one holder per name at a time, so that no two scenarios break, and
// mend, the same thing.
type locks struct {
	mu   sync.Mutex
	held map[string]bool
	free sync.Cond
}

// hold waits for all names at once and returns what gives them back.
func (l *locks) hold(names []string) (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held, l.free.L = map[string]bool{}, &l.mu
	}
	for slices.ContainsFunc(names, func(name string) bool { return l.held[name] }) {
		l.free.Wait()
	}
	for _, name := range names {
		l.held[name] = true
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, name := range names {
			delete(l.held, name)
		}
		l.free.Broadcast()
	}
}
