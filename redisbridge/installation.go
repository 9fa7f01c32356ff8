package redisbridge

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/delaybridge/delaybridge/redisbridge/internal/installation"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store"
	"github.com/delaybridge/delaybridge/topology"
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

// Resharding says how far a change of the number of shards is.
type Resharding struct {
	// Generation is how often the number has changed, and Shards what it is.
	Generation int `json:"generation"`
	Shards     int `json:"shards"`
	// Next is what it is to be, or 0 where it does not change.
	Next int `json:"next_shards,omitempty"`
	// Done is which part of what there was has been looked at, from 0 to 1.
	Done float64 `json:"done,omitempty"`
}

// knowsGenerations is the first version of the layout in which the number of shards can change.
const knowsGenerations = 6

// BeginReshard has the bridges move all messages to another number of shards, while traffic goes on. It returns once
// that has begun; [Park.Resharding] says how far it is. Repeating it is harmless. The lanes of the new shards have to
// exist.
//
// The error names the bridges that do not know how to do that; wraps ErrResharding where another number is being
// changed to, and ErrConfiguration where no bridge is alive, or one is of an earlier release.
func (p *Park) BeginReshard(ctx context.Context, shards int) error {
	if err := p.CheckReshard(ctx, shards); err != nil {
		return err
	}
	return p.store.BeginReshard(ctx, shards)
}

// CheckReshard returns an error where BeginReshard would for what bridges there are. It changes nothing.
func (p *Park) CheckReshard(ctx context.Context, shards int) error {
	if _, err := p.config.Topology.WithShards(shards); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := p.store.Check(ctx); err != nil {
		return err
	}
	members, err := p.store.Members(ctx)
	if err != nil {
		return err
	}
	if len(members) == 0 {
		return fmt.Errorf("%w: no bridge is alive under prefix %s, and bridges move the messages: start one", ErrConfiguration, p.config.Topology.Prefix())
	}
	var earlier []string
	for _, m := range members {
		if b := reportOf(m); !b.knows(knowsGenerations) {
			earlier = append(earlier, b.ID+" (release "+b.Version+")")
		}
	}
	if len(earlier) > 0 {
		return fmt.Errorf("%w: these bridges cannot change the number of shards: replace them first: %s", ErrConfiguration, strings.Join(earlier, ", "))
	}
	return nil
}

// knows reports whether the bridge's release knows a version of the layout.
func (b *BridgeStats) knows(layout int) bool {
	n, err := strconv.Atoi(b.Layout)
	return err == nil && n >= layout
}

// Resharding says how far a change of the number of shards is, if there is one.
func (p *Park) Resharding(ctx context.Context) (Resharding, error) {
	s, err := p.store.Resharding(ctx)
	if err != nil {
		return Resharding{}, fmt.Errorf("look at the number of shards: %w", err)
	}
	r := Resharding{Generation: s.Generation, Shards: s.Shards, Next: s.Next}
	if s.All > 0 {
		const closing = 0.02 // what is left is removed, and looked through once
		r.Done = (1-closing)*float64(s.Slots)/float64(s.All) + closing*float64(s.Closed)/float64(s.Shards)
	}
	return r, nil
}

// Topology returns the topology of p with the lanes of the shards that Redis has, where the number of shards was
// changed, or is being changed. Where nothing was ever parked it is that of the configuration.
func (p *Park) Topology(ctx context.Context) (*topology.Topology, error) {
	l, err := p.store.ReadLayout(ctx)
	if err != nil {
		return nil, err
	}
	return topologyFor(p.config.Topology, l), nil
}

// topologyFor returns t with the lanes of the shards of a layout.
func topologyFor(t *topology.Topology, l store.Layout) *topology.Topology {
	if l.Generation == 0 && l.Next == 0 {
		return t
	}
	needed := slices.Max([]int{l.Shards, l.Next})
	if other, err := t.WithShards(needed); err == nil {
		return other
	}
	return t
}
