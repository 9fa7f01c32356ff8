package redisserver

import (
	"bufio"
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/servers/lifecycle"
)

// slotsInAll is the number of hash slots of every Redis Cluster.
const slotsInAll = 16384

// mastersInAll is the smallest number of masters of which one may fail.
const mastersInAll = 3

// startCluster starts three masters, which share the hash slots.
func (s *Store) startCluster(ctx context.Context, c Config) error {
	m := member{file: "redis.conf", ports: 2, more: func(ports []int) string {
		// A node that is silent for five seconds counts as down; the default is 15.
		return fmt.Sprintf("cluster-enabled yes\ncluster-port %d\ncluster-node-timeout 5000\n", ports[1])
	}}
	for i := range mastersInAll {
		r, err := c.newMember(ctx, m)
		if err != nil {
			return err
		}
		r.Name = fmt.Sprintf("Redis node %d", i+1)
		s.nodes = append(s.nodes, r)
	}
	if err := s.each(s.nodes, func(r *Node) error { return r.Start(ctx) }); err != nil {
		return err
	}
	query := url.Values{}
	for i, r := range s.nodes {
		if err := r.Wrap("join", r.command(func(c *redis.Client) error { return s.join(ctx, c, i) })); err != nil {
			return err
		}
		if i > 0 {
			query.Add("addr", r.address())
		}
	}
	s.url = s.nodes[0].scheme() + s.nodes[0].address() + "?" + query.Encode()
	return s.awaitCluster(ctx)
}

// join gives node i its share of the slots and introduces it to the first node.
func (s *Store) join(ctx context.Context, c *redis.Client, i int) error {
	share := slotsInAll/mastersInAll + 1
	if err := c.ClusterAddSlotsRange(ctx, i*share, min((i+1)*share, slotsInAll)-1).Err(); err != nil {
		return err
	}
	// Nodes of the same epoch could not tell whose word counts.
	if err := c.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil || i == 0 {
		return err
	}
	first := s.nodes[0]
	return c.Do(ctx, "CLUSTER", "MEET", "127.0.0.1", first.port, first.busPort).Err()
}

// awaitCluster returns when every node sees all slots served.
func (s *Store) awaitCluster(ctx context.Context) error {
	return s.each(s.nodes, func(r *Node) error {
		return r.Wrap("join", r.command(func(c *redis.Client) error {
			return lifecycle.Await(ctx, func(ctx context.Context) error { return seesCluster(ctx, c) })
		}))
	})
}

// seesCluster returns nil once a node sees all others, and all slots served.
func seesCluster(ctx context.Context, c *redis.Client) error {
	nodes, err := c.ClusterShards(ctx).Result()
	if err != nil {
		return err
	}
	info, err := c.ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}
	state := fields(info)
	if len(nodes) != mastersInAll || state["cluster_state"] != "ok" {
		return fmt.Errorf("it sees %d shards, state %q", len(nodes), state["cluster_state"])
	}
	return nil
}

// fields reads lines of the form name:value.
func fields(info string) map[string]string {
	found := map[string]string{}
	for lines := bufio.NewScanner(strings.NewReader(info)); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok {
			found[name] = value
		}
	}
	return found
}
