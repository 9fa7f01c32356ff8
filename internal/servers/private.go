package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/delaybridge/delaybridge/internal/servers/config"
	"github.com/delaybridge/delaybridge/internal/servers/lifecycle"
)

// node is a server program of the distribution as a private child process.
type node struct {
	dir     string   // data, settings and log; removed by the watchdog
	program []string // command line
	env     []string
	account *account // whom the program runs as; nil is the current user
	ports   []lifecycle.Port
	dog     *lifecycle.Watchdog
	process *process
}

// newNode makes an empty home for a server that runs as the given user, if
// this process may choose, and reserves ports for it.
func newNode(name, username string, ports int) (*node, error) {
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
	n := &node{dir: dir, account: who, dog: dog}
	if n.ports, err = lifecycle.ReservePorts(ports); err != nil {
		return nil, errors.Join(err, dog.Release())
	}
	if err := who.canEnter(filepath.Dir(dir)); err != nil {
		return nil, errors.Join(err, n.Discard(context.Background()))
	}
	return n, nil
}

// write puts a file into the node's folder: a shipped one, and what this node
// needs besides. It returns the file's path.
func (n *node) write(name, more string) (string, error) {
	content, err := config.Read(name)
	if err != nil {
		return "", err
	}
	path := filepath.Join(n.dir, name)
	return path, os.WriteFile(path, []byte(content+more), 0o600)
}

// run has the node's account run a program to its end, to make what the server
// starts from.
func (n *node) run(ctx context.Context, program string, args ...string) error {
	if err := n.account.own(n.dir); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = n.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + n.dir, "LC_ALL=C.UTF-8"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: n.account.credential()}
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(program), err, lifecycle.Tail(output))
	}
	return nil
}

func (n *node) Start(context.Context) error {
	if err := n.account.own(n.dir); err != nil {
		return err
	}
	log, err := os.OpenFile(n.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the program has its own
	cmd := exec.Command(n.program[0], n.program[1:]...)
	cmd.Dir = n.dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + n.dir, "LC_ALL=C.UTF-8"}, n.env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: n.account.credential()}
	n.process, err = launch(cmd, n.dog)
	return err
}

func (n *node) Halt(context.Context) error {
	n.process.terminate(lifecycle.HaltGrace)
	return nil
}

func (n *node) Kill(context.Context) error {
	n.process.kill()
	return nil
}

func (n *node) Pause(context.Context) error { return n.process.pause() }

func (n *node) Resume(context.Context) error { return n.process.signal(syscall.SIGCONT) }

func (n *node) Discard(context.Context) error {
	n.process.kill()
	return errors.Join(n.dog.Release(), lifecycle.ReleasePorts(n.ports))
}

func (n *node) Running(context.Context) bool { return n.process.alive() }

func (n *node) log() string { return filepath.Join(n.dir, "log") }

// writeLog adds what RabbitMQ writes into files of its own.
func (n *node) WriteLog(_ context.Context, to io.Writer) error {
	files, err := filepath.Glob(filepath.Join(n.dir, "logs", "*.log"))
	for _, file := range append(files, n.log()) {
		content, failed := os.ReadFile(file)
		if failed == nil {
			_, failed = to.Write(content)
		}
		err = errors.Join(err, failed)
	}
	return err
}

func (n *node) LastLines(context.Context) string {
	content, err := os.ReadFile(n.log())
	if err != nil {
		return err.Error()
	}
	return lifecycle.Tail(content)
}

// An account is the system user that a server's package came with.
type account struct {
	name     string
	uid, gid int
}

// lookUpAccount returns nil when this process is not root and so has no choice.
func lookUpAccount(name string) (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return nil, err
	}
	return &account{name: name, uid: uid, gid: gid}, nil
}

// credential is what a child process needs to run as the account.
func (a *account) credential() *syscall.Credential {
	if a == nil {
		return nil
	}
	return &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
}

// own hands a folder and all in it to the account.
func (a *account) own(dir string) error {
	if a == nil {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, a.uid, a.gid)
	})
}

// canEnter fails when the account cannot reach what is in dir.
func (a *account) canEnter(dir string) error {
	if a == nil {
		return nil
	}
	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if info.Mode()&0o001 == 0 {
			return fmt.Errorf("user %s cannot enter %s: set TMPDIR to a folder that every user may enter", a.name, dir)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}
