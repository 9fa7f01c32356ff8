//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// endAsGroup has the program end with all that it has started. It does not get an interrupt that
// is typed at the terminal: the message in hand is to be finished.
func endAsGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}
