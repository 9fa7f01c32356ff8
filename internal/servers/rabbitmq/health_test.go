package rabbitmq

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/delaybridge/delaybridge/internal/servers/containers"
)

// A health check runs as root, and may run before a slow server has written its
// cookie. RabbitMQ's own programs write one then, which the server cannot read.
func TestHealthCheckWaitsForTheCookie(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", containers.ComposeFile))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]struct {
			Healthcheck struct{ Test []string }
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	check := file.Services["rabbitmq"].Healthcheck.Test
	if len(check) != 2 || check[0] != "CMD-SHELL" {
		t.Fatalf("the health check is %q, want a line of shell", check)
	}

	home, programs := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(programs, "rabbitmq-diagnostics"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	line := strings.ReplaceAll(check[1], "/var/lib/rabbitmq", home)
	healthy := func() bool {
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", line)
		cmd.Env = []string{"PATH=" + programs}
		return cmd.Run() == nil
	}
	if healthy() {
		t.Error("without a cookie, RabbitMQ is asked")
	}
	if err := os.WriteFile(filepath.Join(home, cookieFile), nil, 0o400); err != nil {
		t.Fatal(err)
	}
	if !healthy() {
		t.Error("with a cookie, RabbitMQ is not asked")
	}
}
