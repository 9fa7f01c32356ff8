package redisserver

import (
	"context"
	"errors"
	"fmt"
	"os/exec"

	"github.com/delaybridge/delaybridge/internal/servers/private"
)

// startPrivate runs the distribution's redis-server.
func startPrivate(ctx context.Context, m member) (*Node, error) {
	r, err := newPrivate(ctx, m)
	if err != nil {
		return nil, err
	}
	if err := r.StartOrDiscard(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// newPrivate prepares a server that is not started yet.
func newPrivate(ctx context.Context, m member) (*Node, error) {
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

// MissingPackages names the Debian packages whose programs private nodes take, and
// that are not here.
func MissingPackages() []string {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return []string{"redis-server"}
	}
	return nil
}
