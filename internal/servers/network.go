package servers

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

// A bridge is a network of the container engine, in which containers know each
// other by name.
type bridge struct {
	name string
	dog  *lifecycle.Watchdog

	mu      sync.Mutex
	members int
}

// newBridge makes a network, which goes when its last member leaves.
func newBridge(ctx context.Context, engine *client.Client) (*bridge, error) {
	b := &bridge{name: "delaybridge-" + strings.ToLower(rand.Text()[:12])}
	var err error
	if b.dog, err = lifecycle.Watch("/bin/sh", "-c", removeNetwork, "network", b.name); err != nil {
		return nil, err
	}
	if _, err := engine.NetworkCreate(ctx, b.name, client.NetworkCreateOptions{Driver: "bridge"}); err != nil {
		return nil, errors.Join(err, b.dog.Release())
	}
	return b, nil
}

// enter makes a container a member, whether it exists already or is yet to be
// made.
func (b *bridge) enter(ctx context.Context, member *box) error {
	b.mu.Lock()
	b.members++
	b.mu.Unlock()
	if member.made {
		options := client.NetworkConnectOptions{Container: member.name}
		if _, err := member.engine.NetworkConnect(ctx, b.name, options); err != nil {
			return errors.Join(err, b.leave())
		}
	}
	member.bridges = append(member.bridges, b)
	return nil
}

// leave is for a container that has been removed or never got in.
func (b *bridge) leave() error {
	b.mu.Lock()
	b.members--
	empty := b.members == 0
	b.mu.Unlock()
	if !empty {
		return nil
	}
	return b.dog.Release()
}

// introduce makes two containers know each other by name.
func introduce(ctx context.Context, one, two *box) error {
	for _, b := range one.bridges {
		if slices.Contains(two.bridges, b) {
			return nil
		}
	}
	if len(one.bridges) > 0 {
		return one.bridges[0].enter(ctx, two)
	}
	if len(two.bridges) > 0 {
		return two.bridges[0].enter(ctx, one)
	}
	b, err := newBridge(ctx, one.engine)
	if err != nil {
		return err
	}
	if err := b.enter(ctx, one); err != nil {
		return err
	}
	return b.enter(ctx, two)
}
