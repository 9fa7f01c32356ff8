package world

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/delaybridge/delaybridge/internal/fault/roles"
	"github.com/delaybridge/delaybridge/internal/fault/skew"
	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/sleep"
)

// drainWithin is what a process gets to end by itself.
const drainWithin = 60 * time.Second

// Programs are other builds of the program that is running, which play roles like it.
type Programs struct {
	Skewed  func() (string, error) // builds it, once, so that its clock can be wrong
	Earlier func() (string, error) // builds it, once, as it was in the earlier release
}

// Host is what processes need of those who start them.
type Host struct {
	Ctx      context.Context // of the run; nothing starts again by itself after it
	Programs Programs
	Surprise func(what string) // is told what no scenario has asked for
}

// Process is one of our own, which lives many times. A scenario that breaks it holds
// its name in the injector's locks; mu only keeps the supervisor out.
type Process struct {
	host *Host

	mu       sync.Mutex
	role     roles.Role // of the life under way, or of the last one
	program  *servers.Program
	skewed   time.Duration // how wrong its clock is
	earlier  bool          // it is of the earlier release
	expected bool          // it is being ended
	gone     chan struct{} // closed when the supervisor has seen it end
}

// NewProcess makes a process, whose first life begins with [Process.Start].
func NewProcess(h *Host, r roles.Role) *Process { return &Process{host: h, role: r} }

// Start begins the next life, with a trap or without.
func (p *Process) Start(t *roles.Trap) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.startLocked(t)
}

func (p *Process) startLocked(t *roles.Trap) error {
	p.role.Life++
	p.role.Trap = t
	find := os.Executable
	switch {
	case p.skewed != 0:
		find = p.host.Programs.Skewed
	case p.earlier:
		find = p.host.Programs.Earlier
	}
	executable, err := find()
	if err != nil {
		return err
	}
	cmd, err := p.role.Command(executable)
	if err != nil {
		return err
	}
	if p.skewed != 0 {
		cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", skew.Variable, int(p.skewed.Seconds())))
	}
	log, err := os.OpenFile(p.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the program has its own
	cmd.Stdout, cmd.Stderr = log, log
	if p.program, err = servers.Spawn(cmd); err != nil {
		return err
	}
	p.expected, p.gone = false, make(chan struct{})
	go p.supervise(p.program, p.gone, t)
	return nil
}

func (p *Process) logFile() string { return filepath.Join(p.role.Dir, p.role.Name+".log") }

// supervise starts the process again when it ends unasked, as a service manager
// would. Only a trap is a good reason to end.
func (p *Process) supervise(program *servers.Program, gone chan struct{}, t *roles.Trap) {
	<-program.Exited()
	err := program.Stop(0)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer close(gone)
	if p.expected || t != nil && !t.Stop {
		return
	}
	p.host.Surprise(fmt.Sprintf("%s/%d ended by itself: %v; see %s", p.role.Name, p.role.Life, err, p.logFile()))
	sleep.For(p.host.Ctx, 500*time.Millisecond)
	if p.host.Ctx.Err() == nil {
		if err := p.startLocked(nil); err != nil {
			p.host.Surprise(err.Error())
		}
	}
}

// Kill is kill -9.
func (p *Process) Kill() error { return p.end(syscall.SIGKILL) }

// Terminate asks the process to finish what it has begun.
func (p *Process) Terminate() error { return p.end(syscall.SIGTERM) }

func (p *Process) end(sig syscall.Signal) error {
	p.mu.Lock()
	p.expected = true
	program, gone := p.program, p.gone
	err := program.Signal(sig)
	p.mu.Unlock()
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	if sig != syscall.SIGKILL {
		_ = program.Signal(syscall.SIGCONT)
	}
	select {
	case <-gone:
		return nil
	case <-time.After(drainWithin):
		_ = program.Signal(syscall.SIGKILL)
		<-gone
		return fmt.Errorf("%s did not end within %v of %v", p.role.Name, drainWithin, sig)
	}
}

func (p *Process) signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.program.Signal(sig)
}

// Stop has the process stand still until [Process.Continue].
func (p *Process) Stop() error { return p.signal(syscall.SIGSTOP) }

// Continue undoes [Process.Stop], or what a trap did.
func (p *Process) Continue() error { return p.signal(syscall.SIGCONT) }

// Sprung says whether the process has killed or stopped itself.
func (p *Process) Sprung() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.gone:
		return true
	default:
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.program.Pid()))
	if err != nil {
		return true
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(after, "T")
}

// Name is that of the process in all its lives.
func (p *Process) Name() string { return p.role.Name }

// InPython says whether the process is a part of the shop in Python.
func (p *Process) InPython() bool { return p.role.InPython() }

// Change changes what the process is to be from its next life on.
func (p *Process) Change(change func(*roles.Role)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.role)
}

// Skew has the clock of the process be wrong from its next life on, by whole seconds.
func (p *Process) Skew(by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.skewed = by
}

// TakeEarlier has the process be of the earlier release from its next life on, or no more.
func (p *Process) TakeEarlier(earlier bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.earlier = earlier
}

// goroutines returns how many the process has noted down in this life.
func (p *Process) goroutines() ([]int, error) {
	p.mu.Lock()
	r := p.role
	p.mu.Unlock()
	return r.Goroutines()
}
