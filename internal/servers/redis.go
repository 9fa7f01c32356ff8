package servers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"

	"github.com/delaybridge/delaybridge/internal/servers/lifecycle"
	"github.com/delaybridge/delaybridge/internal/servers/private"
)

// Redis is a running Redis server that syncs every write to disk.
type Redis struct {
	lifecycle.Server
	port    int
	busPort int // for the other nodes of a Redis Cluster
	tlsPort int // 0 without TLS
}

// URL is the address of database 0, over TLS where the server takes that. It stays the same for the life of the
// server.
func (r *Redis) URL() string { return r.scheme() + r.address() + "/0" }

// address is how clients and other servers know the server.
func (r *Redis) address() string {
	if r.tlsPort != 0 {
		return net.JoinHostPort("localhost", strconv.Itoa(r.tlsPort))
	}
	return lifecycle.Loopback(r.port)
}

// settingsAddress is address as Redis' settings have it.
func (r *Redis) settingsAddress() string { return strings.ReplaceAll(r.address(), ":", " ") }

func (r *Redis) scheme() string {
	if r.tlsPort != 0 {
		return "rediss://"
	}
	return "redis://"
}

// StartRedis starts a server of its own and returns when it answers. The caller
// owes it a Stop.
func StartRedis(ctx context.Context, config Config) (*Redis, error) {
	config, err := config.settle(ctx)
	if err != nil {
		return nil, err
	}
	return config.startRedis(ctx)
}

// startRedis starts a server as a settled Config says.
func (c Config) startRedis(ctx context.Context) (*Redis, error) {
	if c.Choice == Containers {
		return startRedisContainer(ctx, c.RedisImage)
	}
	r, err := startPrivateRedis(ctx, member{file: "redis.conf", ports: 1, env: otherClock(c.RedisAhead), tls: c.TLS})
	if err == nil && c.RedisAhead != 0 {
		if err = r.Wrap("set the clock of", r.checkClock(ctx, c.RedisAhead)); err != nil {
			err = errors.Join(err, r.Stop(ctx))
		}
	}
	return r, err
}

// newRedis makes the handle of a server that is not started yet.
func newRedis(i lifecycle.Instance, port int) *Redis {
	r := &Redis{port: port}
	r.Server = lifecycle.Server{Name: "Redis", Instance: i, Probe: r.answers}
	return r
}

// startPrivateRedis runs the distribution's redis-server.
func startPrivateRedis(ctx context.Context, m member) (*Redis, error) {
	r, err := newPrivateRedis(ctx, m)
	if err != nil {
		return nil, err
	}
	if err := r.StartOrDiscard(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// newPrivateRedis prepares a server that is not started yet.
func newPrivateRedis(ctx context.Context, m member) (*Redis, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, err
	}
	ports := m.ports
	if m.tls != nil {
		ports++
	}
	n, err := private.New("redis", "redis", ports)
	if err != nil {
		return nil, fmt.Errorf("prepare Redis: %w", err)
	}
	numbers := make([]int, ports)
	for i, p := range n.Ports {
		numbers[i] = p.Number
	}
	if m.tls != nil {
		if m.tls, err = m.tls.CopyTo(n); err != nil {
			return nil, errors.Join(fmt.Errorf("prepare Redis: %w", err), n.Discard(ctx))
		}
	}
	settings, err := n.Write(m.file, m.settings(n.Dir, numbers))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare Redis: %w", err), n.Discard(ctx))
	}
	n.Program = append([]string{program, settings}, m.args...)
	for name, value := range m.env {
		n.Env = append(n.Env, name+"="+value)
	}
	return m.handle(n, numbers), nil
}

// answers returns nil once the server has loaded its data: until then PING is
// answered with an error.
func (r *Redis) answers(ctx context.Context) error {
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
