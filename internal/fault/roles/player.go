package roles

import (
	"log/slog"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/delaybridge/delaybridge/internal/fault/history"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// player is a process that plays a role.
type player struct {
	*Role
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
