package scenarios

import (
	"context"
	"errors"
	"time"
)

func storeScenarios() []Scenario {
	return []Scenario{
		{"order store killed", []string{orderStores}, Anywhere, func(i *injection) error {
			name, server := i.oneStore()
			if server == nil {
				return nil // nothing but a file
			}
			defer i.breaks("kill -9 %s", name)()
			err := server.Kill(i.ctx)
			i.hold(0, time.Second)
			return errors.Join(err, server.Restart(i.ctx))
		}},
		{"order store stopped", []string{orderStores}, Anywhere, func(i *injection) error {
			name, server := i.oneStore()
			if server == nil {
				return nil
			}
			defer i.breaks("%s stands still", name)()
			err := server.Pause(i.ctx)
			i.hold(500*time.Millisecond, 4*time.Second)
			return errors.Join(err, server.Resume(i.ctx))
		}},
	}
}

// storeServer is a server that keeps orders.
type storeServer interface {
	Kill(ctx context.Context) error
	Restart(ctx context.Context) error
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
}

// oneStore returns one of the servers that keep orders, or nil if there is none.
func (i *injection) oneStore() (string, storeServer) {
	n := i.rng.IntN(2)
	switch {
	case i.PostgreSQL != nil && (n == 0 || i.MariaDB == nil):
		return "PostgreSQL", i.PostgreSQL
	case i.MariaDB != nil:
		return "MariaDB", i.MariaDB
	}
	return "", nil
}
