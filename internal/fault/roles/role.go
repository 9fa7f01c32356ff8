// Package roles plays the roles of a fault run: bridges, relays, consumers, customers, and strangers
// who want to harm the others, each in a process of its own.
//
// A run starts its own program again, or the shop in Python, and tells it by an environment variable
// what to be ([Role.Command], [Play]). The process writes all that it asks for and sees into the
// history of the run. A [Trap] has it kill or stop itself at a step that cannot be hit from
// outside.
package roles

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

// variable is the environment variable that holds what a child process of a run is to be. Earlier
// releases read it, too.
const variable = "DELAYBRIDGE_FAULT_ROLE"

// Kinds of roles.
const (
	Bridge          = "bridge"
	Consumer        = "consumer"
	Relay           = "relay"
	Customers       = "customers"
	Stranger        = "stranger"
	PythonCustomers = "python customers"
	PythonConsumer  = "python consumer"
)

// Role is what a child process is to be.
type Role struct {
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
	Trap     *Trap   // nil is none
	Bridge   BridgeSettings
	Queue    string   // of a consumer
	Bind     []string // likewise
	// Tombstones is redisbridge.ParkConfig.Tombstones.
	Tombstones time.Duration
	// Unasked and Ahead are what the shop in Python writes down for its orders, in microseconds.
	Unasked, Ahead int64
}

// Trap has a process end or stop itself at a step.
type Trap struct {
	Step string // a redisbridge.Step, or one of the consumer's or relay's steps
	Nth  int64  // time that the step is reached
	Stop bool   // SIGSTOP rather than SIGKILL
}

// String says what the process does.
func (t *Trap) String() string {
	if t.Stop {
		return "stops itself at " + t.Step
	}
	return "kills itself at " + t.Step
}

// Command returns what plays the role: program, which calls [Play], or the shop in Python.
func (r *Role) Command(program string) (*exec.Cmd, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program)
	if r.InPython() {
		cmd = exec.Command(python, pythonFile(r.Dir))
	}
	cmd.Env = append(os.Environ(), variable+"="+string(text))
	return cmd, nil
}

// Play plays the role that the environment asks for, if it does, and returns the
// exit code. A program that starts runs calls it first of all.
func Play() (code int, asked bool) {
	text, asked := os.LookupEnv(variable)
	if !asked {
		return 0, false
	}
	var r Role
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

func (r *Role) play(ctx context.Context) error {
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
		Role: r, topology: top, history: log,
		log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo})).With("who", who),
	}
	go p.count(ctx)
	switch r.Kind {
	case Bridge:
		return p.bridge(ctx)
	case Consumer:
		return p.consumer(ctx)
	case Relay:
		return p.relay(ctx)
	case Customers:
		return p.customers(ctx)
	case Stranger:
		return p.stranger(ctx)
	}
	return fmt.Errorf("no role %q", r.Kind)
}
