package redisserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/servers/lifecycle"
)

const (
	// watchedName is what the Sentinels call the pair.
	watchedName = "delaybridge"
	// sentinelsInAll is the smallest number of which one may fail.
	sentinelsInAll = 3
	// silence is how long a primary may be silent before it counts as down. A busy
	// machine must not look like that: a promotion loses what the replica lacks.
	silence = 5 * time.Second
)

// startWatched starts a primary, its replica and the Sentinels.
func (s *Store) startWatched(ctx context.Context, c Config) error {
	follow := ""
	for _, name := range []string{"primary", "replica"} {
		r, err := c.newMember(ctx, member{file: "redis.conf", ports: 1, more: func([]int) string {
			// No second replica is worth a wait of 5 s for it.
			return "repl-diskless-sync-delay 0\n" + follow
		}})
		if err != nil {
			return err
		}
		r.Name = "Redis " + name
		s.nodes = append(s.nodes, r)
		if err := r.Start(ctx); err != nil {
			return err
		}
		follow = "replicaof " + r.settingsAddress() + "\n"
	}
	if err := s.nodes[1].awaitLink(ctx); err != nil {
		return err
	}
	return s.startSentinels(ctx, c)
}

// awaitLink returns when the server is a replica that follows its primary.
func (r *Node) awaitLink(ctx context.Context) error {
	return r.Wrap("replicate", r.command(func(c *redis.Client) error {
		return lifecycle.Await(ctx, func(ctx context.Context) error { return linked(ctx, c) })
	}))
}

// startSentinels starts the Sentinels and returns when they know each other and
// the replica, without which they could promote nothing.
func (s *Store) startSentinels(ctx context.Context, c Config) error {
	query := url.Values{"master_name": {watchedName}}
	names := "" // rather than addresses
	if c.TLS != nil {
		names = "sentinel resolve-hostnames yes\nsentinel announce-hostnames yes\nsentinel announce-ip localhost\n"
	}
	m := member{file: "sentinel.conf", ports: 1, args: []string{"--sentinel"}, more: func([]int) string {
		return names + fmt.Sprintf(`protected-mode no
sentinel monitor %[1]s %[2]s %[3]d
sentinel down-after-milliseconds %[1]s %[4]d
sentinel failover-timeout %[1]s 10000
`, watchedName, s.nodes[0].settingsAddress(), sentinelsInAll/2+1, silence.Milliseconds())
	}}
	for i := range sentinelsInAll {
		r, err := c.newMember(ctx, m)
		if err != nil {
			return err
		}
		r.Name = fmt.Sprintf("Sentinel %d", i+1)
		s.sentinels = append(s.sentinels, r)
		if i > 0 {
			query.Add("addr", r.address())
		}
	}
	s.url = s.sentinels[0].URL() + "?" + query.Encode()
	if err := s.each(s.sentinels, func(r *Node) error { return r.Start(ctx) }); err != nil {
		return err
	}
	return s.each(s.sentinels, func(r *Node) error {
		return r.Wrap("watch", lifecycle.Await(ctx, r.seesPair))
	})
}

// seesPair returns nil once a Sentinel knows all others and the replica.
func (r *Node) seesPair(ctx context.Context) error {
	return r.sentinel(func(c *redis.SentinelClient) error {
		seen, err := c.Master(ctx, watchedName).Result()
		if err != nil {
			return err
		}
		if seen["num-slaves"] != "1" || seen["num-other-sentinels"] != "2" {
			return fmt.Errorf("it knows %s replicas and %s other Sentinels, want 1 and 2", seen["num-slaves"], seen["num-other-sentinels"])
		}
		return c.CkQuorum(ctx, watchedName).Err()
	})
}

// primary asks a Sentinel for the address of the primary.
func (r *Node) primary(ctx context.Context) (address string, err error) {
	err = r.Wrap("ask", r.sentinel(func(c *redis.SentinelClient) error {
		at, err := c.GetMasterAddrByName(ctx, watchedName).Result()
		if err == nil {
			address = net.JoinHostPort(at[0], at[1])
		}
		return err
	}))
	return address, err
}

// sentinel connects to a Sentinel for as long as do takes.
func (r *Node) sentinel(do func(*redis.SentinelClient) error) error {
	c := redis.NewSentinelClient(&redis.Options{Addr: lifecycle.Loopback(r.port), MaxRetries: -1, DialTimeout: lifecycle.ProbeTimeout, ReadTimeout: lifecycle.ProbeTimeout})
	return errors.Join(do(c), c.Close())
}

// restartWatched starts the pair again, each in the role it had.
func (s *Store) restartWatched(ctx context.Context) error {
	var primaries []*Node
	err := lifecycle.Await(ctx, func(ctx context.Context) (err error) {
		primaries, err = s.Primaries(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if err := primaries[0].Restart(ctx); err != nil {
		return err
	}
	replica := s.nodes[1-slices.Index(s.nodes, primaries[0])]
	if err := replica.Restart(ctx); err != nil {
		return err
	}
	return replica.awaitLink(ctx)
}
