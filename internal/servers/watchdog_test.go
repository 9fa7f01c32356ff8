package servers_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/servers/redisserver"
)

// orphanVariable makes this test binary the process whose death is tested.
const orphanVariable = "DELAYBRIDGE_TEST_ORPHAN"

// startAndHang starts a server and a replica of it, prints their addresses and
// waits to be killed.
func startAndHang() {
	primary, replica, err := startReplicated(context.Background())
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(primary.URL(), replica.URL())
	select {}
}

func startReplicated(ctx context.Context) (primary, replica *redisserver.Node, err error) {
	if primary, err = servers.StartRedis(ctx, servers.Config{}); err != nil {
		return nil, nil, err
	}
	if replica, err = servers.StartRedis(ctx, servers.Config{}); err != nil {
		return nil, nil, err
	}
	return primary, replica, replica.Replicate(ctx, primary)
}

// networksOf names the networks of the container that publishes the address;
// there are none when the server is no container.
func networksOf(t *testing.T, address string) []string {
	t.Helper()
	if _, err := exec.LookPath("docker"); err != nil {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	output, err := exec.CommandContext(t.Context(), "docker", "ps", "--no-trunc", "--filter", "publish="+port, "--format", "{{.Networks}}").Output()
	if err != nil {
		return nil // no engine
	}
	return strings.FieldsFunc(strings.TrimSpace(string(output)), func(r rune) bool { return r == ',' })
}

// awaitGone waits until a look finds nothing.
func awaitGone(t *testing.T, what string, gone func(context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !gone(ctx) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s outlives its parent", what)
		}
	}
}

func TestNothingOutlivesItsParent(t *testing.T) {
	t.Parallel()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.CommandContext(t.Context(), executable)
	parent.Env = append(os.Environ(), orphanVariable+"=1")
	parent.Stderr = os.Stderr
	output, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var addresses, networks []string
	for field := range strings.FieldsSeq(line) {
		u, err := url.Parse(field)
		if err != nil || u.Host == "" {
			t.Fatalf("the parent said %q (%v), want the addresses of its servers", line, err)
		}
		addresses = append(addresses, u.Host)
		networks = append(networks, networksOf(t, u.Host)...)
	}
	slices.Sort(networks)
	networks = slices.Compact(networks)
	if len(networks) > 0 && len(networks) != 2 {
		t.Fatalf("the containers are in %q, want the default network and one of their own", networks)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // it was killed

	for _, address := range addresses {
		awaitGone(t, "the server at "+address, func(ctx context.Context) bool {
			var dialer net.Dialer
			conn, err := dialer.DialContext(ctx, "tcp", address)
			if err == nil {
				_ = conn.Close()
			}
			return errors.Is(err, syscall.ECONNREFUSED)
		})
	}
	for _, network := range networks {
		if network == "bridge" {
			continue
		}
		awaitGone(t, "the network "+network, func(ctx context.Context) bool {
			output, err := exec.CommandContext(ctx, "docker", "network", "ls", "-q", "--filter", "name="+network).Output()
			return err == nil && len(output) == 0
		})
	}
}
