package redisserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/internal/servers/lifecycle"
	"github.com/delaybridge/delaybridge/internal/servers/private"
)

// A Config says how to start Redis.
type Config struct {
	// Image is that of containers. Empty are private nodes.
	Image string
	// Ahead is by how much the clock of a private node that stands alone is ahead of this
	// machine's, or behind where it is negative. Defaults to 0.
	Ahead time.Duration
	// TLS has private nodes take connections over TLS, too. Defaults to none.
	TLS *private.TLS
}

// A Node is a running Redis server that syncs every write to disk, or a Sentinel.
type Node struct {
	lifecycle.Server
	port    int
	busPort int // for the other nodes of a Redis Cluster
	tlsPort int // 0 without TLS
}

// URL is the address of database 0, over TLS where the server takes that. It stays the same for the life of the
// server.
func (r *Node) URL() string { return r.scheme() + r.address() + "/0" }

// address is how clients and other servers know the server.
func (r *Node) address() string {
	if r.tlsPort != 0 {
		return net.JoinHostPort("localhost", strconv.Itoa(r.tlsPort))
	}
	return lifecycle.Loopback(r.port)
}

// settingsAddress is address as Redis' settings have it.
func (r *Node) settingsAddress() string { return strings.ReplaceAll(r.address(), ":", " ") }

func (r *Node) scheme() string {
	if r.tlsPort != 0 {
		return "rediss://"
	}
	return "redis://"
}

// Start starts a server of its own and returns when it answers. The caller owes
// it a Stop.
func Start(ctx context.Context, config Config) (*Node, error) {
	if config.Image != "" {
		return startContainer(ctx, config.Image)
	}
	r, err := startPrivate(ctx, member{file: "redis.conf", ports: 1, env: otherClock(config.Ahead), tls: config.TLS})
	if err == nil && config.Ahead != 0 {
		if err = r.Wrap("set the clock of", r.checkClock(ctx, config.Ahead)); err != nil {
			err = errors.Join(err, r.Stop(ctx))
		}
	}
	return r, err
}

// New makes the handle of a server that is not started yet.
func New(i lifecycle.Instance, port int) *Node {
	r := &Node{port: port}
	r.Server = lifecycle.Server{Name: "Redis", Instance: i, Probe: r.answers}
	return r
}

// answers returns nil once the server has loaded its data: until then PING is
// answered with an error.
func (r *Node) answers(ctx context.Context) error {
	conn, err := lifecycle.Dialer(ctx)("tcp", lifecycle.Loopback(r.port))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		return err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err
	}
	if answer = strings.TrimSpace(answer); answer != "+PONG" {
		return fmt.Errorf("PING: %s", answer)
	}
	return nil
}
