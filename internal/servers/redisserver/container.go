package redisserver

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/delaybridge/delaybridge/internal/servers/config"
	"github.com/delaybridge/delaybridge/internal/servers/containers"
)

// portInside is the port of a server in its container.
const portInside = 6379

// startContainer runs an image that takes its settings as the official one
// does.
func startContainer(ctx context.Context, image string) (*Node, error) {
	const settings = "/usr/local/etc/redis/redis.conf"
	inside := fmt.Sprintf("%d/tcp", portInside)
	b, err := containers.New(containers.Container{Name: "redis", Image: image, Args: []string{"redis-server", settings}}, inside)
	if err != nil {
		return nil, fmt.Errorf("prepare Redis: %w", err)
	}
	if err := b.Ship(settings, "redis.conf", ""); err != nil {
		return nil, errors.Join(err, b.Discard(ctx))
	}
	r := New(b, b.Ports[inside].Number)
	if err := r.StartOrDiscard(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// newMemberContainer prepares a container that is not started yet, in the
// network of this machine: a member of a Redis Cluster, or what Sentinel watches,
// has one address for its peers and for clients.
func newMemberContainer(ctx context.Context, image string, m member) (*Node, error) {
	const data = "/data"
	names := []string{"1/tcp", "2/tcp"}[:m.ports]
	b, err := containers.New(containers.Container{Name: "redis", Image: image, AtHome: true}, names...)
	if err != nil {
		return nil, fmt.Errorf("prepare Redis: %w", err)
	}
	numbers := make([]int, m.ports)
	for i, name := range names {
		numbers[i] = b.Ports[name].Number
	}
	// Sentinel rewrites its settings, and those of the servers it watches.
	settings := path.Join(data, m.file)
	b.Args = slices.Concat([]string{"redis-server", settings}, m.args)
	content, err := config.Read(m.file)
	if err != nil {
		return nil, errors.Join(err, b.Discard(ctx))
	}
	b.Rewritable = map[string]string{settings: content + m.settings(data, numbers)}
	return m.handle(b, numbers), nil
}
