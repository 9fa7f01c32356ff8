package fault

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/fault/history"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// RoleVariable holds what a child process of a run is to be. A program that
// starts runs calls [Role] first of all.
const RoleVariable = "DELAYBRIDGE_FAULT_ROLE"

// role is what a child process is to be.
type role struct {
	Kind     string // bridge, consumer, relay, customers or stranger; or python customers or consumer
	Name     string // such as bridge-1
	Life     int    // counts restarts
	Dir      string // of the run
	AMQP     string
	Redis    string
	Stores   []storeAt
	Topology topology.Config
	Elder    *topology.Config // customers have producers that go by it, too; nil is none
	Seed     uint64
	Rate     float64 // orders per second
	Began    int64   // when the first order was to be placed, Unix microseconds
	Ends     int64   // when the last one is to be placed, likewise
	Trap     *trap   // nil is none
	Bridge   bridgeRole
	Queue    string   // of a consumer
	Bind     []string // likewise
	// Tombstones is redisbridge.ParkConfig.Tombstones.
	Tombstones time.Duration
	// Unasked and Ahead are what the shop in Python writes down for its orders, in microseconds.
	Unasked, Ahead int64
}

// bridgeRole is what only a bridge needs.
type bridgeRole struct {
	Lease       time.Duration // 0 is the default
	RepairEvery time.Duration // 0 is the default
}

// trap has a process end or stop itself at a step.
type trap struct {
	Step string // a redisbridge.Step, or one of the consumer's or relay's steps
	Nth  int64  // time that the step is reached
	Stop bool   // SIGSTOP rather than SIGKILL
}

func (t *trap) String() string {
	if t.Stop {
		return "stops itself at " + t.Step
	}
	return "kills itself at " + t.Step
}

// Role plays the role that the environment asks for, if it does, and returns the
// exit code.
func Role() (code int, asked bool) {
	text, asked := os.LookupEnv(RoleVariable)
	if !asked {
		return 0, false
	}
	var r role
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		fmt.Fprintln(os.Stderr, "fault:", err)
		return 2, true
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := r.play(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "fault: %s: %v\n", r.Name, err)
		return 1, true
	}
	return 0, true
}

func (r *role) play(ctx context.Context) error {
	who := fmt.Sprintf("%s/%d", r.Name, r.Life)
	log, err := history.Create(filepath.Join(r.Dir, "history", fmt.Sprintf("%s-%d.jsonl", r.Name, r.Life)), who)
	if err != nil {
		return err
	}
	top, err := topology.New(r.Topology)
	if err != nil {
		return err
	}
	p := &player{
		role: r, topology: top, history: log,
		log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo})).With("who", who),
	}
	go p.count(ctx)
	switch r.Kind {
	case "bridge":
		return p.bridge(ctx)
	case "consumer":
		return p.consumer(ctx)
	case "relay":
		return p.relay(ctx)
	case "customers":
		return p.customers(ctx)
	case "stranger":
		return p.stranger(ctx)
	}
	return fmt.Errorf("no role %q", r.Kind)
}

// player is a process that plays a role.
type player struct {
	*role
	topology *topology.Topology
	history  *history.Writer
	log      *slog.Logger
	reached  atomic.Int64
}

// openPark connects to Redis, and returns what ends the connection.
func (p *player) openPark() (*redisbridge.Park, func(), error) {
	return p.openParkOf(p.topology)
}

func (p *player) openParkOf(t *topology.Topology) (*redisbridge.Park, func(), error) {
	client, err := redisbridge.NewClient(p.Redis)
	if err != nil {
		return nil, nil, err
	}
	closeClient := func() { _ = client.Close() }
	park, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: client, Topology: t, AMQPURL: p.AMQP, Tombstones: p.Tombstones})
	if err != nil {
		closeClient()
	}
	return park, closeClient, err
}

// note writes an event down. A history that cannot be written makes the run
// worthless, so the process ends.
func (p *player) note(e history.Event) {
	if err := p.history.Write(e); err != nil {
		panic(err)
	}
}

// step springs the trap if it is set for this step.
func (p *player) step(name string) {
	if p.Trap == nil || p.Trap.Step != name || p.reached.Add(1) != p.Trap.Nth {
		return
	}
	p.note(history.Event{Kind: history.Fault, Detail: p.Name + " " + p.Trap.String()})
	sig := syscall.SIGKILL
	if p.Trap.Stop {
		sig = syscall.SIGSTOP
	}
	_ = syscall.Kill(os.Getpid(), sig)
}

// The run's topology: short delays, so that each path sees many orders.
const (
	prefix = "fault"
	shards = 4
	lead   = 5 * time.Second
	queue  = "shop.closing"
	// slowQueue is that of the orders whose routing key is slowKey.
	slowQueue = "shop.slow"
	slowKey   = keyPrefix + "slow"
	// mailQueue is a second one to which those go whose routing key is mailKey.
	mailQueue = "shop.mails"
	mailKey   = keyPrefix + "b"
	// plainQueue is that of the orders whose routing key is plainKey. Its consumer does not
	// ask Redis.
	plainQueue = "shop.plain"
	plainKey   = keyPrefix + "plain"
	// strangersQueue is that of the strangers. Its consumer asks Redis.
	strangersQueue = "strangers"
)

// trackedEntry is where some of the foreign clients publish.
func trackedEntry() topology.Entry {
	return topology.Entry{Name: "tracked", Kind: amqp.ExchangeTopic, Tracked: true}
}

// strangers are who publishes to an entry of their own and wants to harm the others.
func strangers() topology.Entry { return topology.Entry{Name: "strangers", Kind: amqp.ExchangeTopic} }

// addedEntry is there now and then. Some of what is for the tracked one is published there then.
func addedEntry() topology.Entry { return topology.Entry{Name: "added", Kind: amqp.ExchangeDirect} }

func tiers() []time.Duration { return []time.Duration{time.Second, 2 * time.Second, 5 * time.Second} }

func shortDelays() topology.Config {
	return topology.Config{Prefix: prefix, Tiers: tiers(), Lead: lead, Shards: shards, Entries: []topology.Entry{trackedEntry(), strangers()}}
}
