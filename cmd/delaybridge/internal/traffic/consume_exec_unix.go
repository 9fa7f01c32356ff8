//go:build unix

package traffic

import (
	"os/exec"
	"syscall"
)

// endAsGroup makes the program the leader of a process group, which SIGTERM ends as a whole. Ctrl-C does
// not reach that group, so that the program finishes the message.
func endAsGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}
