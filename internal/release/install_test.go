package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// One after the other: the unit serves metrics at one port.
func TestInstalled(t *testing.T) {
	t.Parallel()
	t.Run("here", installedHere)
	t.Run("under systemd", installedUnderSystemd)
}

// The package is installed on this machine, where no systemd need run: the test starts the unit's command
// as its user, with its environment and credentials, and without privileges.
func installedHere(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("installing packages takes root")
	}
	if _, err := os.Stat("/etc/delaybridge"); err == nil {
		t.Fatal("delaybridge is installed here already, and the test would remove it: apt-get purge delaybridge")
	}
	published(t, first, ".deb") // fails where there is none
	t.Cleanup(func() {
		if err := said(exec.Command("dpkg", "--purge", "delaybridge")); err != nil {
			t.Error(err)
		}
	})
	service := &process{t: t}
	t.Cleanup(service.kill)
	m := &machine{
		t: t, prefix: fmt.Sprintf("here-%d", os.Getpid()), deb: func(version string) string { return published(t, version, ".deb") },
		start: service.start, stop: service.stop, running: service.running,
	}
	m.upgraded = func() {
		// Without systemd, nothing but its administrator restarts it.
		if !service.running() {
			t.Error("the upgrade has ended the bridge")
		}
		service.stop()
		service.start()
	}
	m.life()
}

// process is the service, without systemd.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	output bytes.Buffer // read it after ended
	ended  chan struct{}
	err    error // likewise
}

// unit reads the values of a setting in the unit file.
func unit(t *testing.T, key string) (values []string) {
	t.Helper()
	text, err := os.ReadFile("/usr/lib/systemd/system/delaybridge.service")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), key+"="); found {
			values = append(values, value)
		}
	}
	if len(values) == 0 {
		t.Fatalf("the unit has no %s", key)
	}
	return values
}

func (p *process) start() {
	p.t.Helper()
	user, group := unit(p.t, "User")[0], unit(p.t, "Group")[0]
	dir, err := os.MkdirTemp("", "delaybridge-unit-")
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for _, credential := range unit(p.t, "LoadCredential") {
		name, path, _ := strings.Cut(credential, ":")
		if err := said(exec.Command("install", "--mode=0400", path, filepath.Join(dir, name))); err != nil {
			p.t.Fatal(err)
		}
	}
	socket := filepath.Join(dir, "notify")
	notified, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = notified.Close() }()
	if err := said(exec.Command("chown", "--recursive", user+":"+group, dir)); err != nil {
		p.t.Fatal(err)
	}

	args := []string{"--reuid", user, "--regid", group, "--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"}
	p.cmd = exec.Command("setpriv", append(args, strings.Fields(unit(p.t, "ExecStart")[0])...)...)
	p.cmd.Env = append(unit(p.t, "Environment"), "CREDENTIALS_DIRECTORY="+dir, "NOTIFY_SOCKET="+socket)
	p.output.Reset()
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.ended = make(chan struct{})
	go func() {
		p.err = p.cmd.Wait()
		_ = notified.Close()
		close(p.ended)
	}()
	for message := make([]byte, 4096); ; {
		n, err := notified.Read(message)
		if err != nil {
			<-p.ended
			p.t.Fatalf("the service ends before it is ready: %v\n%s", cmp.Or(p.err, err), p.output.Bytes())
		}
		if bytes.Contains(message[:n], []byte("READY=1")) {
			return
		}
	}
}

func (p *process) stop() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	<-p.ended
	if p.err != nil {
		p.t.Errorf("the service ends with %v\n%s", p.err, p.output.Bytes())
	}
}

func (p *process) running() bool {
	return p.cmd != nil && !errors.Is(p.cmd.Process.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

func (p *process) kill() {
	if p.running() {
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}
