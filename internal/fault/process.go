package fault

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/delaybridge/delaybridge/internal/fault/skew"
	"github.com/delaybridge/delaybridge/internal/servers"
)

// drainWithin is what a process gets to end by itself.
const drainWithin = 60 * time.Second

// process is one of our own, which lives many times. Whoever breaks it holds
// its name in the run's locks; mu only keeps the supervisor out.
type process struct {
	run  *world
	role role

	mu       sync.Mutex
	program  *servers.Program
	skewed   time.Duration // how wrong its clock is
	earlier  bool          // it is of the earlier release
	expected bool          // it is being ended
	gone     chan struct{} // closed when the supervisor has seen it end
}

// start begins the next life, with a trap or without.
func (p *process) start(t *trap) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.startLocked(t)
}

func (p *process) startLocked(t *trap) error {
	p.role.Life++
	p.role.Trap = t
	text, err := json.Marshal(&p.role)
	if err != nil {
		return err
	}
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	if p.earlier {
		if executable, err = p.run.earlierProgram(); err != nil {
			return err
		}
	}
	environment := append(os.Environ(), RoleVariable+"="+string(text))
	if p.skewed != 0 {
		if executable, err = p.run.skewedProgram(); err != nil {
			return err
		}
		environment = append(environment, fmt.Sprintf("%s=%d", skew.Variable, int(p.skewed.Seconds())))
	}
	log, err := os.OpenFile(p.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the program has its own
	cmd := exec.Command(executable)
	if p.role.inPython() {
		cmd = exec.Command(python, p.run.pythonFile())
	}
	cmd.Env, cmd.Stdout, cmd.Stderr = environment, log, log
	if p.program, err = servers.Spawn(cmd); err != nil {
		return err
	}
	p.expected, p.gone = false, make(chan struct{})
	go p.supervise(p.program, p.gone, t)
	return nil
}

func (p *process) logFile() string { return filepath.Join(p.run.dir, p.role.Name+".log") }

// supervise starts the process again when it ends unasked, as a service manager
// would. Only a trap is a good reason to end.
func (p *process) supervise(program *servers.Program, gone chan struct{}, t *trap) {
	<-program.Exited()
	err := program.Stop(0)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer close(gone)
	if p.expected || t != nil && !t.Stop {
		return
	}
	p.run.surprise(fmt.Sprintf("%s/%d ended by itself: %v; see %s", p.role.Name, p.role.Life, err, p.logFile()))
	pause(p.run.ctx, 500*time.Millisecond)
	if p.run.ctx.Err() == nil {
		if err := p.startLocked(nil); err != nil {
			p.run.surprise(err.Error())
		}
	}
}

// kill is kill -9.
func (p *process) kill() error { return p.end(syscall.SIGKILL) }

// terminate asks the process to finish what it has in hand.
func (p *process) terminate() error { return p.end(syscall.SIGTERM) }

func (p *process) end(sig syscall.Signal) error {
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

func (p *process) signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.program.Signal(sig)
}

func (p *process) stop() error { return p.signal(syscall.SIGSTOP) }
func (p *process) cont() error { return p.signal(syscall.SIGCONT) }

// sprung says whether the process has killed or stopped itself.
func (p *process) sprung() bool {
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
