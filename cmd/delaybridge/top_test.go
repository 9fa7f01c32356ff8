package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
	"golang.org/x/term"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
)

// terminal runs a program in one.
type terminal struct {
	t      *testing.T
	file   *os.File // our side
	tty    *os.File // the program's
	cmd    *exec.Cmd
	screen vt10x.Terminal
	read   chan struct{} // closed when the program has closed its side
	before *term.State
}

func startInTerminal(t *testing.T, vars map[string]string, width, height int, arguments ...string) *terminal {
	t.Helper()
	file, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	x := &terminal{t: t, file: file, tty: tty, read: make(chan struct{})}
	x.screen = vt10x.New(vt10x.WithWriter(file), vt10x.WithSize(width, height))
	x.resize(width, height)
	if x.before, err = term.GetState(int(tty.Fd())); err != nil {
		t.Fatal(err)
	}
	x.cmd = exec.Command(filepath.Join(program(t), "delaybridge"), arguments...)
	x.cmd.Env = append(os.Environ(), "TERM=xterm-256color")
	for name, value := range vars {
		x.cmd.Env = append(x.cmd.Env, name+"="+value)
	}
	x.cmd.Stdin, x.cmd.Stdout, x.cmd.Stderr = tty, tty, tty
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(x.read)
		buffer := make([]byte, 1<<14)
		for {
			n, err := file.Read(buffer)
			if n > 0 {
				_, _ = x.screen.Write(buffer[:n])
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = x.cmd.Process.Kill()
		_ = tty.Close()
		_ = file.Close()
		<-x.read
	})
	return x
}

func (x *terminal) resize(width, height int) {
	x.t.Helper()
	x.screen.Resize(width, height)
	if err := pty.Setsize(x.file, &pty.Winsize{Cols: uint16(width), Rows: uint16(height)}); err != nil {
		x.t.Fatal(err)
	}
}

// mode is what the program has made of the terminal, which the library does not guard.
func (x *terminal) mode() vt10x.ModeFlag {
	x.screen.Lock()
	defer x.screen.Unlock()
	return x.screen.Mode()
}

func (x *terminal) press(keys string) {
	x.t.Helper()
	if _, err := x.file.WriteString(keys); err != nil {
		x.t.Fatal(err)
	}
}

// await returns the screen once it is as wanted.
func (x *terminal) await(what string, wanted func(screen string) bool) string {
	x.t.Helper()
	for began := time.Now(); ; <-time.After(50 * time.Millisecond) {
		screen := x.screen.String()
		if wanted(screen) {
			return screen
		}
		if time.Since(began) > time.Minute {
			x.t.Fatalf("%s: the screen is\n%s", what, screen)
		}
	}
}

// ends checks the exit code, and that the terminal is as it was.
func (x *terminal) ends(code int) {
	x.t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = x.cmd.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		x.t.Fatalf("it does not end; the screen is\n%s", x.screen)
	}
	if got := x.cmd.ProcessState.ExitCode(); got != code {
		x.t.Errorf("exit code %d, want %d; the screen is\n%s", got, code, x.screen)
	}
	x.await("the alternate screen is left", func(string) bool { return x.mode()&vt10x.ModeAltScreen == 0 })
	x.await("the cursor is back", func(string) bool { return x.mode()&vt10x.ModeHide == 0 })
	after, err := term.GetState(int(x.tty.Fd()))
	if err != nil {
		x.t.Fatal(err)
	}
	if *after != *x.before {
		x.t.Errorf("the terminal's settings are %+v, and were %+v", after, x.before)
	}
}

func contains(parts ...string) func(string) bool {
	return func(screen string) bool {
		for _, part := range parts {
			if !strings.Contains(screen, part) {
				return false
			}
		}
		return true
	}
}

// From the start to q, with load, a bridge, a resize and help in between.
func TestTopInATerminal(t *testing.T) {
	t.Parallel()
	vars := scriptEnv(t)
	bin := filepath.Join(program(t), "delaybridge")
	command := func(arguments ...string) *exec.Cmd {
		cmd := exec.Command(bin, arguments...)
		cmd.Env = os.Environ()
		for name, value := range vars {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		return cmd
	}
	if out, err := command("topology", "apply").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	x := startInTerminal(t, vars, 80, 24, "top", "--interval", "200ms")
	x.await("there is no bridge yet", contains("no bridge is alive", "SHARD"))
	if mode := x.mode(); mode&vt10x.ModeAltScreen == 0 || mode&vt10x.ModeHide == 0 {
		t.Error("it is not on the alternate screen, or shows the cursor")
	}
	bridge := command("bridge", "--name", "alpha")
	if err := bridge.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = bridge.Process.Signal(syscall.SIGTERM)
		_ = bridge.Wait()
	})
	x.await("the bridge is alive", contains("ok  no problems", "alpha-"))
	load := command("publish", "--file", "-")
	load.Stdin = strings.NewReader(`{"id":"a","key":"k","in":"2h"}
{"id":"b","key":"k","in":"2h"}
{"id":"c","key":"k","in":"30s"}
`)
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	x.await("two are parked", contains("parked 2 ", "NEXT DUE"))
	x.press("p")
	x.await("pause", contains("paused since"))
	x.press("p")
	x.await("going on", func(screen string) bool { return !strings.Contains(screen, "paused") })

	x.resize(120, 40)
	x.await("there is room for more", contains("HOST", "parked 2 "))
	x.resize(40, 10)
	narrow := x.await("there is room for less", func(screen string) bool {
		return !strings.Contains(screen, "HOST") && contains("q quit", "more")(screen)
	})
	if lines := strings.Split(strings.TrimRight(narrow, "\n"), "\n"); !strings.HasPrefix(lines[0], "delaybridge top") {
		t.Errorf("the first line of the narrow screen is %q", lines[0])
	}
	x.press("\x1b[B\x1b[B\x1b[B\x1b[B\x1b[B\x1b[B\x1b[B\x1b[B")
	x.await("it is scrolled", contains("↑"))
	x.resize(80, 24)
	x.press("?")
	x.await("help", contains("straight to the ready exchange"))
	x.press("?")
	x.await("no help", contains("SHARD"))
	x.press("q")
	x.ends(cli.ExitOK)
}

func TestTopLeavesTheTerminalAsItWas(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		end  func(*terminal)
	}{
		{"SIGTERM", func(x *terminal) { _ = x.cmd.Process.Signal(syscall.SIGTERM) }},
		{"SIGINT", func(x *terminal) { _ = x.cmd.Process.Signal(syscall.SIGINT) }},
		{"ctrl+c", func(x *terminal) { x.press("\x03") }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			x := startInTerminal(t, scriptEnv(t), 80, 24, "top", "--no-color")
			x.await("it draws", contains("no bridge is alive", "queues missing"))
			test.end(x)
			x.ends(cli.ExitOK)
		})
	}
}

// Servers that are away are shown, and what is configured wrongly ends it.
func TestTopWithoutServers(t *testing.T) {
	t.Parallel()
	vars := scriptEnv(t)
	vars["DELAYBRIDGE_REDIS_URL"] = "redis://127.0.0.1:1/0"
	vars["DELAYBRIDGE_AMQP_URL"] = "amqp://127.0.0.1:1/"
	x := startInTerminal(t, vars, 80, 24, "top")
	x.await("it says so", contains("Redis does not answer", "RabbitMQ does not answer", "connection refused"))
	x.press("q")
	x.ends(cli.ExitOK)

	vars = scriptEnv(t)
	vars["DELAYBRIDGE_AMQP_URL"] = vars["AMQP_OF_A_STRANGER"]
	x = startInTerminal(t, vars, 80, 24, "top")
	x.ends(cli.ExitUsage)
	x.await("the reason is left on the screen", contains("refused user name or password"))
}

// A broker that accepts connections and says nothing is one that cannot be reached.
func TestTopOfASilentBroker(t *testing.T) {
	t.Parallel()
	vars := scriptEnv(t)
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
		}
	}()
	vars["DELAYBRIDGE_AMQP_URL"] = "amqp://" + listener.Addr().String() + "/" + vars["DELAYBRIDGE_PREFIX"]
	code, stdout, stderr := runIn(t, vars, "top", "--once", "--interval", "200ms")
	if code != cli.ExitUnreachable || !strings.Contains(stdout, "RabbitMQ does not answer") {
		t.Errorf("exit code %d, want %d:\n%s%s", code, cli.ExitUnreachable, stdout, stderr)
	}
	if err := listener.Close(); err != nil {
		t.Error(err)
	}
	<-ended
}
