package servers

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/goccy/go-yaml"
)

// A health check runs as root, and may run before a slow server has written its
// cookie: RabbitMQ cannot start with a cookie that root wrote.
func TestHealthCheckLeavesTheCookieToRabbitMQ(t *testing.T) {
	t.Parallel()
	config, err := Config{}.settle(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if config.Choice != Containers {
		t.Skip("compose.yaml is for containers")
	}
	text, err := os.ReadFile(filepath.Join("..", "..", composeFile))
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
	script := "if " + check[1] + "; then echo healthy without a server; fi; ls -A /var/lib/rabbitmq"
	out, err := exec.CommandContext(t.Context(), "docker", "run", "--rm", "--pull=never", "--network=none", "--user=root",
		"--entrypoint=sh", config.RabbitMQImage, "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if len(out) != 0 {
		t.Errorf("the health check, where no server ran yet, left %q, want nothing", out)
	}
}
