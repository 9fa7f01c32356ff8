package servers

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Control runs rabbitmqctl on the server and returns what it prints, for what
// neither AMQP nor the management API offers, such as raising an alarm.
func (r *RabbitMQ) Control(ctx context.Context, args ...string) (string, error) {
	var cmd *exec.Cmd
	switch i := r.instance.(type) {
	case *node:
		program := filepath.Join(rabbitMQDirs, "bin", "rabbitmqctl")
		if _, err := os.Stat(program); err != nil {
			program = "rabbitmqctl"
		}
		cmd = exec.CommandContext(ctx, program, args...)
		cmd.Dir = i.dir
		cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + i.dir, "LC_ALL=C.UTF-8"}, i.env...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: i.account.credential()}
	case *box:
		cmd = exec.CommandContext(ctx, "docker", append([]string{"exec", i.name, "rabbitmqctl"}, args...)...)
	default:
		return "", fmt.Errorf("rabbitmqctl: not for a %T", i)
	}
	output, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("rabbitmqctl %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(output))
	}
	return string(output), nil
}
