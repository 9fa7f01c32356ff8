package main

import (
	"bytes"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
)

// silentServer accepts connections and answers nothing, and returns its address.
func silentServer(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var open []net.Conn
		for {
			conn, err := listener.Accept()
			if err != nil {
				break
			}
			open = append(open, conn)
		}
		for _, conn := range open {
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-ended
	})
	return listener.Addr().String()
}

// A server that accepts connections and answers nothing is one that cannot be reached, whatever asks it.
func TestServersThatAnswerNothing(t *testing.T) {
	t.Parallel()
	vars := scriptEnv(t)
	applyTopology(t, vars)
	vars["DELAYBRIDGE_CONNECT_TIMEOUT"] = "1s"
	address := silentServer(t)
	redis, rabbitmq := "redis://:s3cret@"+address+"/0?read_timeout=1s", "amqp://guest:s3cret@"+address+"/"
	var all sync.WaitGroup
	atOnce := make(chan struct{}, 8)
	ask := func(flag, url, says string, arguments ...string) {
		cmd := command(t, vars, append(arguments, flag, url)...)
		all.Go(func() {
			atOnce <- struct{}{}
			defer func() { <-atOnce }()
			var said bytes.Buffer
			cmd.Stdout, cmd.Stderr = &said, &said
			_ = cmd.Run()
			if code := cmd.ProcessState.ExitCode(); code != cli.ExitUnreachable || !strings.Contains(said.String(), says) || strings.Contains(said.String(), "s3cret") {
				t.Errorf("%s: exit code %d, want %d and %q:\n%s", strings.Join(arguments, " "), code, cli.ExitUnreachable, says, &said)
			}
		})
	}
	const remedy = "cannot reach Redis; is it running, and is the address right?"
	for _, arguments := range [][]string{
		{"publish", "--id", "a", "--key", "k", "--in", "17m"}, {"get", "a"}, {"cancel", "a"}, {"cancel", "--group", "g"},
		{"reschedule", "a", "--in", "5m"}, {"erase", "a"}, {"list"}, {"export"}, {"stats"}, {"top", "--once"}, {"audit"}, {"adopt"},
		{"reshard", "2"}, {"bridge"}, {"consume", "--queue", "q", "--bind", "k"}, {"topology", "delete"},
	} {
		ask("--redis-url", redis, "(redis-url redis://:xxxxx@"+address+"/0", arguments...)
	}
	ask("--redis-url", redis, remedy, "list", "-o", "json")
	ask("--redis-url", redis, "redis-unreachable: Redis at "+address, "doctor")
	for _, arguments := range [][]string{
		{"publish", "--id", "b", "--key", "k", "--in", "30s", "--untracked"}, {"stats"}, {"top", "--once"}, {"adopt"},
		{"bridge"}, {"consume", "--queue", "q", "--bind", "k"}, {"quarantine", "list"},
		{"topology", "apply"}, {"topology", "plan"}, {"topology", "prune"}, {"topology", "delete"}, {"doctor"},
	} {
		ask("--amqp-url", rabbitmq, "amqp://guest:xxxxx@"+address+"/", arguments...)
	}
	all.Wait()
}
