package private

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/delaybridge/delaybridge/internal/servers/config"
	"github.com/delaybridge/delaybridge/internal/servers/lifecycle"
)

// A Node is a server program of the distribution as a private child process.
type Node struct {
	Dir     string   // data, settings and log; removed by the watchdog
	Program []string // command line
	Env     []string
	Ports   []lifecycle.Port // released by Discard

	account *account // whom the program runs as; nil is the current user
	dog     *lifecycle.Watchdog
	process *Process
}

// New makes an empty home for a server that runs as the given user, if
// this process may choose, and reserves ports for it.
func New(name, username string, ports int) (*Node, error) {
	who, err := lookUpAccount(username)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "delaybridge-"+name+"-")
	if err != nil {
		return nil, err
	}
	dog, err := lifecycle.Watch("rm", "-rf", "--", dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	n := &Node{Dir: dir, account: who, dog: dog}
	if n.Ports, err = lifecycle.ReservePorts(ports); err != nil {
		return nil, errors.Join(err, dog.Release())
	}
	if err := who.canEnter(filepath.Dir(dir)); err != nil {
		return nil, errors.Join(err, n.Discard(context.Background()))
	}
	return n, nil
}

// Write puts a file into the node's folder: a shipped one, and what this node
// needs besides. It returns the file's path.
func (n *Node) Write(name, more string) (string, error) {
	content, err := config.Read(name)
	if err != nil {
		return "", err
	}
	path := filepath.Join(n.Dir, name)
	return path, os.WriteFile(path, []byte(content+more), 0o600)
}

// Run has the node's account run a program to its end, to make what the server
// starts from.
func (n *Node) Run(ctx context.Context, program string, args ...string) error {
	if err := n.account.own(n.Dir); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = n.Dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + n.Dir, "LC_ALL=C.UTF-8"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: n.account.credential()}
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(program), err, lifecycle.Tail(output))
	}
	return nil
}

// Start launches the program on the data it had before, if any.
func (n *Node) Start(context.Context) error {
	if err := n.account.own(n.Dir); err != nil {
		return err
	}
	log, err := os.OpenFile(n.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the program has its own
	cmd := exec.Command(n.Program[0], n.Program[1:]...)
	cmd.Dir = n.Dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + n.Dir, "LC_ALL=C.UTF-8"}, n.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: n.account.credential()}
	n.process, err = Launch(cmd, n.dog)
	return err
}

// Halt asks the program to end, and kills it when it has not after [lifecycle.HaltGrace].
func (n *Node) Halt(context.Context) error {
	n.process.Terminate(lifecycle.HaltGrace)
	return nil
}

// Kill ends the program and all it has forked.
func (n *Node) Kill(context.Context) error {
	n.process.kill()
	return nil
}

// Pause has the whole group stand still, and returns once it does.
func (n *Node) Pause(context.Context) error { return n.process.pause() }

// Resume lets a paused group go on.
func (n *Node) Resume(context.Context) error { return n.process.Signal(syscall.SIGCONT) }

// Credential is what a child process needs to run as the node's account; nil is the current user.
func (n *Node) Credential() *syscall.Credential { return n.account.credential() }

// Signal sends a signal to every process of the node's group, and returns
// os.ErrProcessDone when the program has ended.
func (n *Node) Signal(sig syscall.Signal) error { return n.process.Signal(sig) }

// Discard ends the program, if it runs, removes its folder and releases its ports.
func (n *Node) Discard(context.Context) error {
	n.process.kill()
	return errors.Join(n.dog.Release(), lifecycle.ReleasePorts(n.Ports))
}

// Running says whether the program runs, paused or not.
func (n *Node) Running(context.Context) bool { return n.process.alive() }

func (n *Node) log() string { return filepath.Join(n.Dir, "log") }

// WriteLog writes what the program has logged into the folder logs, as RabbitMQ
// does, and then what it has printed.
func (n *Node) WriteLog(_ context.Context, to io.Writer) error {
	files, err := filepath.Glob(filepath.Join(n.Dir, "logs", "*.log"))
	for _, file := range append(files, n.log()) {
		content, failed := os.ReadFile(file)
		if failed == nil {
			_, failed = to.Write(content)
		}
		err = errors.Join(err, failed)
	}
	return err
}

// LastLines returns the end of the log, for an error message.
func (n *Node) LastLines(context.Context) string {
	content, err := os.ReadFile(n.log())
	if err != nil {
		return err.Error()
	}
	return lifecycle.Tail(content)
}
