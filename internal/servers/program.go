package servers

import (
	"errors"
	"os/exec"
	"syscall"
	"time"

	"github.com/delaybridge/delaybridge/internal/servers/lifecycle"
	"github.com/delaybridge/delaybridge/internal/servers/private"
)

// A Program is a child process that dies with this one, as a private node does.
type Program struct {
	process *private.Process
	dog     *lifecycle.Watchdog
}

// Spawn starts a program in the background. The caller owes it a Stop. The
// program reads nothing from standard input, and is the leader of a new process
// group, so that Ctrl-C at the terminal does not reach it.
func Spawn(cmd *exec.Cmd) (*Program, error) {
	dog, err := lifecycle.Watch("true")
	if err != nil {
		return nil, err
	}
	p, err := private.Launch(cmd, dog)
	if err != nil {
		return nil, errors.Join(err, dog.Release())
	}
	return &Program{process: p, dog: dog}, nil
}

// Exited is closed once the program has ended, for whatever reason.
func (p *Program) Exited() <-chan struct{} { return p.process.Exited() }

// Pid is the ID of the program's process and of its group.
func (p *Program) Pid() int { return p.process.Group() }

// Signal sends a signal to every process of the program's group, and returns
// os.ErrProcessDone when the program has ended.
func (p *Program) Signal(sig syscall.Signal) error { return p.process.Signal(sig) }

// Stop asks the program to end, kills it when it has not after grace, and
// returns how it ended: nil is exit code 0.
func (p *Program) Stop(grace time.Duration) error {
	p.process.Terminate(grace)
	return errors.Join(p.process.Wait(), p.dog.Release())
}
