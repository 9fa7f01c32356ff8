package lifecycle

import (
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"syscall"
)

// watchdogScript reads the process group to end, a line each time it changes,
// until its standard input closes: that is when the parent stops the server or
// dies, in whatever way. Then it runs its own arguments, a clean-up command.
//
// A parent death signal would not do: it is tied to the thread that forked.
const watchdogScript = `
group=
while read -r line; do group=$line; done
[ -z "$group" ] || kill -s KILL -- "-$group"
exec "$@"
`

// A Watchdog is a child process that cleans up after a server as soon as this
// process lets go of it.
type Watchdog struct {
	cmd  *exec.Cmd
	pipe io.WriteCloser
}

// Watch starts a watchdog that runs the command cleanup at the end.
func Watch(cleanup ...string) (*Watchdog, error) {
	cmd := exec.Command("/bin/sh", append([]string{"-c", watchdogScript, "watchdog"}, cleanup...)...)
	// A group of its own, so that Ctrl-C at the terminal does not reach it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// A folder that every user may read, and that is not about to be removed.
	cmd.Dir = "/"
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("watchdog: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("watchdog: %w", err)
	}
	return &Watchdog{cmd: cmd, pipe: pipe}, nil
}

// Guard names the process group that is to die with this process; 0 is none.
func (w *Watchdog) Guard(group int) error {
	line := "\n"
	if group != 0 {
		line = strconv.Itoa(group) + "\n"
	}
	if _, err := io.WriteString(w.pipe, line); err != nil {
		return fmt.Errorf("watchdog: %w", err)
	}
	return nil
}

// Release lets the watchdog clean up and waits until it has.
func (w *Watchdog) Release() error {
	closed := w.pipe.Close()
	if err := w.cmd.Wait(); err != nil {
		return fmt.Errorf("clean up after a server: %w", err)
	}
	if closed != nil {
		return fmt.Errorf("watchdog: %w", closed)
	}
	return nil
}
