package containers

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/moby/moby/client"

	"github.com/delaybridge/delaybridge/internal/servers/lifecycle"
)

// removeNetwork removes a network once nothing is in it: when this process is
// killed, the watchdogs of its containers run at the same time.
const removeNetwork = `
tries=0
while [ "$tries" -lt 150 ]; do
	docker network rm "$1" && exit
	docker network inspect "$1" >/dev/null || exit 0
	tries=$((tries + 1))
	sleep 0.2
done
exit 1
`

// A network is one of the container engine, in which containers know each
// other by name.
type network struct {
	name string
	dog  *lifecycle.Watchdog

	mu      sync.Mutex
	members int
}

// newNetwork makes a network, which goes when its last member leaves.
func newNetwork(ctx context.Context, engine *client.Client) (*network, error) {
	n := &network{name: "delaybridge-" + strings.ToLower(rand.Text()[:12])}
	var err error
	if n.dog, err = lifecycle.Watch("/bin/sh", "-c", removeNetwork, "network", n.name); err != nil {
		return nil, err
	}
	if _, err := engine.NetworkCreate(ctx, n.name, client.NetworkCreateOptions{Driver: "bridge"}); err != nil {
		return nil, errors.Join(err, n.dog.Release())
	}
	return n, nil
}

// enter makes a container a member, whether it exists already or is yet to be
// made.
func (n *network) enter(ctx context.Context, member *Container) error {
	n.mu.Lock()
	n.members++
	n.mu.Unlock()
	if member.made {
		options := client.NetworkConnectOptions{Container: member.Name}
		if _, err := member.engine.NetworkConnect(ctx, n.name, options); err != nil {
			return errors.Join(err, n.leave())
		}
	}
	member.networks = append(member.networks, n)
	return nil
}

// leave is for a container that has been removed or never got in.
func (n *network) leave() error {
	n.mu.Lock()
	n.members--
	empty := n.members == 0
	n.mu.Unlock()
	if !empty {
		return nil
	}
	return n.dog.Release()
}

// Join has containers know each other by name, in a network of their own, which goes
// with the last of them.
func Join(ctx context.Context, members ...*Container) error {
	n, err := newNetwork(ctx, members[0].engine)
	if err != nil {
		return err
	}
	for _, c := range members {
		if err := n.enter(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// Introduce has two containers know each other by name, in a network of one of them, or
// a new one, unless they do already.
func Introduce(ctx context.Context, one, two *Container) error {
	for _, n := range one.networks {
		if slices.Contains(two.networks, n) {
			return nil
		}
	}
	if len(one.networks) > 0 {
		return one.networks[0].enter(ctx, two)
	}
	if len(two.networks) > 0 {
		return two.networks[0].enter(ctx, one)
	}
	return Join(ctx, one, two)
}
