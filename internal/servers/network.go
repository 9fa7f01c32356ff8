package servers

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"

	"github.com/moby/moby/client"
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
	dog  *watchdog

	mu      sync.Mutex
	members int
}

// newBridge makes a network, which goes when its last member leaves.
func newBridge(ctx context.Context, engine *client.Client) (*bridge, error) {
	b := &bridge{name: "delaybridge-" + strings.ToLower(rand.Text()[:12])}
	var err error
	if b.dog, err = watch("/bin/sh", "-c", removeNetwork, "network", b.name); err != nil {
		return nil, err
	}
	if _, err := engine.NetworkCreate(ctx, b.name, client.NetworkCreateOptions{Driver: "bridge"}); err != nil {
		return nil, errors.Join(err, b.dog.release())
	}
	return b, nil
}

// enter makes a container a member, whether it exists already or is yet to be
// made.
func (b *bridge) enter(ctx context.Context, member *box) error {
	if member.made {
		_, err := member.engine.NetworkConnect(ctx, b.name, client.NetworkConnectOptions{Container: member.name})
		if err != nil {
			return err
		}
	}
	member.bridge = b
	b.mu.Lock()
	defer b.mu.Unlock()
	b.members++
	return nil
}

// leave is for a container that has been removed.
func (b *bridge) leave() error {
	b.mu.Lock()
	b.members--
	empty := b.members == 0
	b.mu.Unlock()
	if !empty {
		return nil
	}
	return b.dog.release()
}
