// Package redis keeps a ledger in Redis, for effects that are in no database, or
// in one that has no package of its own.
//
//	l, err := redis.New(redis.Config{Client: client})
//	...
//	first, err := l.Once(ctx, key, func(ctx context.Context) error {
//		return mail.Send(ctx, reminder)
//	})
//
// While the effect runs the ledger has a lease on the key, which it renews; then it
// leaves a mark, which expires after Config.Keep.
//
// Effect and mark are not committed together. The effect happens again where its
// process dies after it and before the mark, where it goes on although the lease
// was lost (its context ends then), and where Redis loses the mark: with other
// settings than appendfsync always in a crash, and in a failover to a replica that
// had not yet received it. Where that must not be, keep the ledger in the database
// of the effect: packages postgres, mysql and sqlite.
package redis

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/consumer/ledger"
)

// Defaults of [Config].
const (
	DefaultPrefix = "delaybridge:ledger:"
	DefaultLease  = 30 * time.Second
	DefaultKeep   = 7 * 24 * time.Hour
)

// minLease leaves the renewals, of which there are three in a lease, some time.
const minLease = 30 * time.Millisecond

// Config of a [Ledger].
type Config struct {
	// Client remains the caller's. Required. Redis, or Redis Cluster, must run with
	// maxmemory-policy noeviction, or it throws marks away.
	Client redis.UniversalClient
	// Prefix is what the names of all keys begin with. Defaults to DefaultPrefix.
	Prefix string
	// Lease is for how long a process that died in an effect keeps others from it. At
	// least 30 ms. Defaults to DefaultLease.
	Lease time.Duration
	// Keep is for how long a mark is kept: longer than a message may wait for a
	// consumer. Defaults to DefaultKeep.
	Keep time.Duration
}

// Ledger is a [ledger.Ledger]. Make one with [New].
type Ledger struct {
	config            Config
	take, keep, leave *redis.Script
}

//go:embed lua/take.lua
var takeScript string

//go:embed lua/keep.lua
var keepScript string

//go:embed lua/leave.lua
var leaveScript string

// done is what a mark says once the effect has happened. The name of a holder is longer.
const done = "done"

// Answers of take.lua; any other is for how many ms it is taken.
const (
	happened = -1
	taken    = 0
)

// errLost ends the context of an effect.
var errLost = errors.New("ledger: the lease on the effect is lost; it may happen elsewhere")

// New checks c, and reports every fault at once. It does no I/O.
func New(c Config) (*Ledger, error) {
	if c.Prefix == "" {
		c.Prefix = DefaultPrefix
	}
	if c.Lease == 0 {
		c.Lease = DefaultLease
	}
	if c.Keep == 0 {
		c.Keep = DefaultKeep
	}
	var faults []error
	if c.Client == nil {
		faults = append(faults, errors.New("ledger: Client is missing"))
	}
	if c.Lease < minLease {
		faults = append(faults, fmt.Errorf("ledger: Lease %v: use at least %v", c.Lease, minLease))
	}
	if c.Keep < c.Lease {
		faults = append(faults, fmt.Errorf("ledger: Keep %v: use at least Lease (%v)", c.Keep, c.Lease))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return &Ledger{
		config: c,
		take:   redis.NewScript(takeScript), keep: redis.NewScript(keepScript), leave: redis.NewScript(leaveScript),
	}, nil
}

// Once implements [ledger.Ledger]. While another call has the effect under way it returns a *[ledger.BusyError]. The context of effect ends when the lease is lost.
func (l *Ledger) Once(ctx context.Context, key string, effect func(ctx context.Context) error) (first bool, err error) {
	if err := ledger.CheckKey(key); err != nil {
		return false, err
	}
	claim := l.claim(key)
	if first, err = claim.begin(ctx); !first {
		return false, err
	}
	marked := false
	defer func() {
		if !marked { // a panic, too
			claim.abandon(context.WithoutCancel(ctx))
		}
	}()
	if err := claim.hold(ctx, effect); err != nil {
		return false, err
	}
	marked = true // even if it is not: the effect has happened, and the lease keeps others from it for a while
	return true, claim.mark(context.WithoutCancel(ctx))
}

// claim returns a claim on a key that is not made yet.
func (l *Ledger) claim(key string) *claim {
	return &claim{Ledger: l, key: key, mine: []string{l.config.Prefix + key}, who: rand.Text()}
}
