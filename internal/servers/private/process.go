package private

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"github.com/delaybridge/delaybridge/internal/servers/lifecycle"
)

// A Process is a server program and all it forks: a process group.
type Process struct {
	group  int
	exited chan struct{} // closed once the program is gone and reaped
	err    error         // how it ended; read it after exited
}

// gate holds a program back until its watchdog knows its process group. It
// gives up when the parent is gone before that.
const gate = `read -r _ || exit; exec "$@" </dev/null`

// Launch starts a program as the leader of a new process group, guarded by dog.
// It takes over Args, Dir, Env, Stdout, Stderr and the credential of cmd.
func Launch(cmd *exec.Cmd, dog *lifecycle.Watchdog) (*Process, error) {
	cmd.Args = append([]string{"sh", "-c", gate, cmd.Path}, cmd.Args...)
	cmd.Path = "/bin/sh"
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	open, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{group: cmd.Process.Pid, exited: make(chan struct{})}
	guarded := dog.Guard(p.group)
	if guarded == nil {
		_, guarded = io.WriteString(open, "\n")
	}
	go func() {
		defer close(p.exited)
		p.err = cmd.Wait()
		p.endGroup()
		_ = dog.Guard(0)
	}()
	if guarded != nil {
		p.kill()
		return nil, guarded
	}
	return p, nil
}

// Group is the ID of the program's process and of its group.
func (p *Process) Group() int { return p.group }

// Exited is closed once the program has ended, for whatever reason.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Wait waits until the program has ended, and returns how: nil is exit code 0.
func (p *Process) Wait() error {
	<-p.exited
	return p.err
}

// endGroup kills what the program has forked and left behind, and waits until
// it is gone, since it may hold ports that a restart needs.
func (p *Process) endGroup() {
	// They are not our children, so only init can reap them; where it is slow to,
	// they stay visible, though dead, and there is no point in waiting long.
	const pause, most = 5 * time.Millisecond, 200
	for range most {
		if syscall.Kill(-p.group, syscall.SIGKILL) == syscall.ESRCH {
			return
		}
		time.Sleep(pause)
	}
}

// alive says whether the program still runs, paused or not.
func (p *Process) alive() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// kill ends the whole group at once and waits until it is gone.
func (p *Process) kill() {
	if !p.alive() {
		return
	}
	_ = syscall.Kill(-p.group, syscall.SIGKILL)
	<-p.exited
}

// Terminate asks the program to end and kills it when it has not after grace.
func (p *Process) Terminate(grace time.Duration) {
	if !p.alive() {
		return
	}
	_ = syscall.Kill(-p.group, syscall.SIGTERM)
	_ = syscall.Kill(-p.group, syscall.SIGCONT)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-timer.C:
		p.kill()
	}
}

// Signal sends a signal to every process of the group, and returns
// os.ErrProcessDone when the program has ended.
func (p *Process) Signal(sig syscall.Signal) error {
	if !p.alive() {
		return os.ErrProcessDone
	}
	return os.NewSyscallError("kill", syscall.Kill(-p.group, sig))
}

// stopWithin is how long all threads of a group may take to stop: those that wait for a
// disk finish that first.
const stopWithin = 30 * time.Second

// pause has the whole group stand still, and returns once it does. That the signal was
// sent says only that it will: on a busy machine a server can go on for a while.
func (p *Process) pause() error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for deadline := time.Now().Add(stopWithin); ; time.Sleep(time.Millisecond) {
		stands, err := standsStill(p.group)
		if stands || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("process group %d has not stopped within %v", p.group, stopWithin)
		}
	}
}

// standsStill reports whether no thread of a process group runs.
func standsStill(group int) (bool, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return false, err
	}
	for _, one := range all {
		if stat, err := one.Stat(); err != nil || stat.PGRP != group { // gone, or another's
			continue
		}
		threads, err := procfs.AllThreads(one.PID)
		if err != nil {
			continue
		}
		for _, thread := range threads {
			if stat, err := thread.Stat(); err == nil && !strings.ContainsAny(stat.State, "TtZX") { // stopped, or ended
				return false, nil
			}
		}
	}
	return true, nil
}
