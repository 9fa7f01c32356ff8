package rabbitmq

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/delaybridge/delaybridge/internal/servers/containers"
	"github.com/delaybridge/delaybridge/internal/servers/private"
)

// Control runs rabbitmqctl on the server and returns what it prints, for what
// neither AMQP nor the management API offers, such as raising an alarm.
func (r *Node) Control(ctx context.Context, args ...string) (string, error) {
	command, err := r.ControlCommand()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, command[0], append(command[1:], args...)...)
	if i, ok := r.Instance.(*private.Node); ok {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: i.Credential()}
	}
	output, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("rabbitmqctl %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(output))
	}
	return string(output), nil
}

// ControlCommand returns the program and the arguments that run rabbitmqctl on the
// server, to be completed by what it is to do.
func (r *Node) ControlCommand() ([]string, error) {
	switch i := r.Instance.(type) {
	case *private.Node:
		program := filepath.Join(programDirs, "bin", "rabbitmqctl")
		if _, err := os.Stat(program); err != nil {
			program = "rabbitmqctl"
		}
		command := []string{"env", "-i", "-C", i.Dir, "PATH=" + os.Getenv("PATH"), "HOME=" + i.Dir, "LC_ALL=C.UTF-8"}
		return append(append(command, i.Env...), program), nil
	case *containers.Container:
		return []string{"docker", "exec", i.Name, "rabbitmqctl"}, nil
	default:
		return nil, fmt.Errorf("rabbitmqctl: not for a %T", i)
	}
}
