// Package examples_test runs the examples in other languages, as their readers
// would, against real servers.
package examples_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// patience is for what has no reason to take long, on a machine that may have.
const patience = 2 * time.Minute

// clients are the examples: the command, where, and what must be done before.
func clients(t *testing.T) map[string]func(ctx context.Context, delayMS string) *exec.Cmd {
	t.Helper()
	if err := servers.EnsureClients(t.Context(), map[string]string{
		"python3-pika": "/usr/lib/python3/dist-packages/pika",
		"nodejs":       "node",
		"npm":          "npm",
		"amqp-tools":   "amqp-publish",
	}); err != nil {
		t.Fatal(err)
	}
	node := nodeFolder(t)
	return map[string]func(context.Context, string) *exec.Cmd{
		"Python": func(ctx context.Context, delayMS string) *exec.Cmd {
			return exec.CommandContext(ctx, "/usr/bin/python3", "python/delay.py", delayMS) // Debian's, which has pika
		},
		"Node": func(ctx context.Context, delayMS string) *exec.Cmd {
			cmd := exec.CommandContext(ctx, "node", "delay.mjs", delayMS)
			cmd.Dir = node
			return cmd
		},
		"shell": func(ctx context.Context, delayMS string) *exec.Cmd {
			return exec.CommandContext(ctx, "sh", "shell/delay.sh", delayMS)
		},
	}
}

// nodeFolder is a copy of the examples for Node with what they need, so that what npm fetches does not
// stay.
func nodeFolder(t *testing.T) string {
	t.Helper()
	node := t.TempDir()
	if err := os.CopyFS(node, os.DirFS("node")); err != nil {
		t.Fatal(err)
	}
	fetch := exec.CommandContext(t.Context(), "npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--prefer-offline")
	fetch.Dir = node
	if out, err := fetch.CombinedOutput(); err != nil {
		t.Fatalf("npm install: %v: %s", err, out)
	}
	return node
}

var cameOut = regexp.MustCompile(`^order \S+ came out after (\d+) ms\n$`)

func TestExamplesInOtherLanguages(t *testing.T) {
	t.Parallel()
	env := servertest.ForTest(t)
	tiers, err := topology.New(topology.Config{Prefix: env.Prefix, Tiers: []time.Duration{time.Second}, Lead: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	apply(t, env, tiers)
	bridge(t, env, tiers)
	for language, command := range clients(t) {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			// Equal to a tier, shorter than any, longer: one after the other, since
			// they share a queue.
			for _, delayMS := range []int{1000, 300, 2345} {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				cmd := command(ctx, strconv.Itoa(delayMS))
				cmd.Env = append(os.Environ(), "DELAYBRIDGE_AMQP_URL="+env.AMQPURL, "DELAYBRIDGE_PREFIX="+env.Prefix)
				var complaints bytes.Buffer
				cmd.Stderr = &complaints
				out, err := cmd.Output()
				cancel()
				if err != nil {
					t.Fatalf("%d ms: %v: %s", delayMS, err, complaints.Bytes())
				}
				match := cameOut.FindSubmatch(out)
				if match == nil {
					t.Fatalf("%d ms: it said %q", delayMS, out)
				}
				if after, _ := strconv.Atoi(string(match[1])); after < delayMS {
					t.Errorf("%d ms: came out after %d ms, which is early", delayMS, after)
				}
			}
		})
	}
}

func apply(t *testing.T, env servertest.Env, tiers *topology.Topology) {
	t.Helper()
	conn, err := amqp.Dial(env.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := tiers.Apply(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
}

// bridge runs one until the test is over.
func bridge(t *testing.T, env servertest.Env, tiers *topology.Topology) {
	t.Helper()
	client := servertest.OpenRedis(t, env.RedisURL)
	park, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: client, Topology: tiers})
	if err != nil {
		t.Fatal(err)
	}
	servertest.VerifyAfter(t, park)
	b, err := redisbridge.New(redisbridge.Config{Client: client, AMQPURL: env.AMQPURL, Topology: tiers, Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("bridge: %v", err)
		}
	})
}
