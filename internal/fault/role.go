package fault

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/delaybridge/delaybridge/internal/fault/history"
	"github.com/delaybridge/delaybridge/internal/fault/shop"
	"github.com/delaybridge/delaybridge/topology"
)

// RoleVariable holds what a child process of a run is to be. A program that
// starts runs calls [Role] first of all.
const RoleVariable = "DELAYBRIDGE_FAULT_ROLE"

// Kinds of roles.
const (
	kindBridge          = "bridge"
	kindConsumer        = "consumer"
	kindRelay           = "relay"
	kindCustomers       = "customers"
	kindStranger        = "stranger"
	kindPythonCustomers = "python customers"
	kindPythonConsumer  = "python consumer"
)

// role is what a child process is to be.
type role struct {
	Kind     string // one of the kinds
	Name     string // such as bridge-1
	Life     int    // counts restarts
	Dir      string // of the run
	AMQP     string
	Redis    string
	Stores   []shop.StoreAt
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

// command returns what plays the role: program, which calls [Role], or the shop in Python.
func (r *role) command(program string) (*exec.Cmd, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program)
	if r.inPython() {
		cmd = exec.Command(python, pythonFile(r.Dir))
	}
	cmd.Env = append(os.Environ(), RoleVariable+"="+string(text))
	return cmd, nil
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
	case kindBridge:
		return p.bridge(ctx)
	case kindConsumer:
		return p.consumer(ctx)
	case kindRelay:
		return p.relay(ctx)
	case kindCustomers:
		return p.customers(ctx)
	case kindStranger:
		return p.stranger(ctx)
	}
	return fmt.Errorf("no role %q", r.Kind)
}
