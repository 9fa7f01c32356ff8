package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The published image does what the README begins with, in the containers of compose.yaml.
func TestImageInCompose(t *testing.T) {
	t.Parallel()
	if err := said(exec.Command("docker", "load", "--input", published(t, first, ".image.tar"))); err != nil {
		t.Fatal(err)
	}
	image := "delaybridge:" + first
	t.Cleanup(func() { _ = exec.Command("docker", "image", "rm", image).Run() })
	if got := outputOf(t, exec.Command("docker", "run", "--rm", "--read-only", "--network", "none", image, "--version")); got != "delaybridge v"+first+"\n" {
		t.Errorf("the image has %s", got)
	}
	compose := composition(t, image)
	compose("--profile", "consumer", "up", "--detach", "--no-build")

	bridge := strings.TrimSpace(compose("ps", "--quiet", "bridge"))
	var inspected []struct {
		Config     struct{ User string }
		HostConfig struct {
			ReadonlyRootfs bool
			CapDrop        []string
		}
		State struct{ Health struct{ Status string } }
	}
	if err := json.Unmarshal([]byte(outputOf(t, exec.Command("docker", "inspect", bridge))), &inspected); err != nil {
		t.Fatal(err)
	}
	if got := inspected[0]; got.Config.User != imageUser || !got.HostConfig.ReadonlyRootfs || !slices.Contains(got.HostConfig.CapDrop, "ALL") || got.State.Health.Status != "healthy" {
		t.Errorf("the bridge runs as %+v", got)
	}
	consumer := strings.TrimSpace(compose("--profile", "consumer", "ps", "--quiet", "consumer"))
	until(t, "the consumer is ready", func() error {
		return said(exec.Command("docker", "exec", consumer, "delaybridge", "probe"))
	})
	compose("exec", "-T", "bridge", "delaybridge", "publish", "--id", "order-1", "--key", "order.unpaid", "--in", "1.7s", "--body", "close me")
	until(t, "the message is there", func() error {
		logs, err := exec.Command("docker", "logs", consumer).CombinedOutput()
		if err != nil || !strings.Contains(string(logs), "order-1") {
			return fmt.Errorf("%w: %s", err, logs)
		}
		return nil
	})
}

// composition returns what runs a compose command on containers of this test alone.
func composition(t *testing.T, image string) func(args ...string) string {
	t.Helper()
	program := []string{"docker", "compose"}
	if exec.Command("docker", "compose", "version").Run() != nil {
		program = []string{"docker-compose"}
	}
	environment := append(os.Environ(), "DELAYBRIDGE_IMAGE="+image)
	for variable, usual := range map[string]string{"DELAYBRIDGE_RABBITMQ_IMAGE": "delaybridge-ci/rabbitmq:4.3", "DELAYBRIDGE_REDIS_IMAGE": "delaybridge-ci/redis:8"} {
		if os.Getenv(variable) == "" {
			environment = append(environment, variable+"="+usual)
		}
	}
	for _, variable := range []string{"DELAYBRIDGE_AMQP_PORT", "DELAYBRIDGE_MANAGEMENT_PORT", "DELAYBRIDGE_REDIS_PORT", "DELAYBRIDGE_METRICS_PORT"} {
		environment = append(environment, variable+"="+freePort(t))
	}
	file, err := filepath.Abs(filepath.Join(repository, "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	program = append(program, "--file", file, "--project-name", fmt.Sprintf("delaybridge-release-%d", os.Getpid()))
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command(program[0], slices.Concat(program[1:], args)...)
		cmd.Env = environment
		return cmd
	}
	t.Cleanup(func() {
		if t.Failed() {
			logs, _ := command("--profile", "consumer", "logs", "--tail", "40").CombinedOutput()
			t.Logf("%s", logs)
		}
		if err := said(command("--profile", "consumer", "down", "--volumes", "--timeout", "10")); err != nil {
			t.Error(err)
		}
	})
	return func(args ...string) string { t.Helper(); return outputOf(t, command(args...)) }
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}
