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
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/internal/servers"
)

// orphanVariable makes this test binary the process whose death is tested.
const orphanVariable = "DELAYBRIDGE_TEST_ORPHAN"

// startAndHang starts a server, prints its address and waits to be killed.
func startAndHang() {
	r, err := servers.StartRedis(context.Background(), servers.Config{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(r.URL())
	select {}
}

func TestNoServerOutlivesItsParent(t *testing.T) {
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
	address, err := url.Parse(strings.TrimSpace(line))
	if err != nil || address.Host == "" {
		t.Fatalf("the parent said %q (%v), want the address of its server", line, err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // it was killed

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", address.Host)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return
		}
		if err == nil {
			_ = conn.Close()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("the server at %s outlives its parent (last dial: %v)", address.Host, err)
		}
	}
}
