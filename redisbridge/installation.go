package redisbridge

import (
	"context"

	"github.com/delaybridge/delaybridge/redisbridge/internal/installation"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store"
)

// An Adoption is that an installation goes on with what Redis has, though it is not, or not
// quite, what the installation has parked there.
type Adoption struct {
	// Installation is the ID of the installation, and Epoch the number of its epoch: after the
	// adoption, if there was one.
	Installation string `json:"installation"`
	Epoch        int64  `json:"epoch"`
	// Refused is why bridges refuse what Redis has; empty where they do not, and there is nothing to
	// adopt.
	Refused string `json:"refused,omitempty"`
	// Consequences are what may be lost or repeated.
	Consequences string `json:"consequences,omitempty"`
	// Adopted is whether it was done.
	Adopted bool `json:"adopted"`
}

// Adopt has the installation of c go on with what Redis has, where bridges refuse that, if agree
// agrees to what that means. A new epoch begins, so that the Redis that it takes the place of is
// refused if it comes back. Bridges that wait go on within seconds. It needs what a bridge
// is permitted.
//
// Where the error is not nil, adopting again is harmless.
func Adopt(ctx context.Context, c Config, agree func(Adoption) bool) (Adoption, error) {
	b, err := New(c)
	if err != nil {
		return Adoption{}, err
	}
	defer b.conditions.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	connection := make(chan struct{})
	go func() {
		defer close(connection)
		if err := b.conn.Run(ctx); err != nil {
			cancel(err)
		}
	}()
	defer func() { cancel(nil); <-connection }()
	a, err := b.adopt(ctx, agree)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause // why there is no connection
	}
	return a, err
}

func (b *Bridge) adopt(ctx context.Context, agree func(Adoption) bool) (Adoption, error) {
	if err := b.store.CheckLayout(ctx); err != nil {
		return Adoption{}, err
	}
	cluster, vhost, err := b.conn.Server(ctx)
	if err != nil {
		return Adoption{}, err
	}
	var a Adoption
	after, err := installation.Adopt(ctx, b.store, b.conn, b.config.Topology, store.Owner{Cluster: cluster, VHost: vhost}, func(d installation.Difference) bool {
		a.Refused, a.Consequences = d.Refused, d.Consequences
		a.Adopted = d.Refused != "" && agree(a)
		return a.Adopted
	})
	a.Installation, a.Epoch = after.ID, after.Epoch
	a.Adopted = a.Adopted && err == nil
	return a, err
}
