package rabbitmq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/delaybridge/delaybridge/internal/servers/lifecycle"
)

// clusterSize is the smallest number of nodes of which one may fail.
const clusterSize = 3

// A Cluster is three RabbitMQ nodes, so that a quorum queue has three replicas.
//
// A node answers only while another one does, too: a Restart of the first of
// several that are down waits for a second.
type Cluster struct {
	nodes []*Node
	epmd  *lifecycle.Server // of private nodes; containers have one each
}

// StartCluster starts a cluster of its own, on the settings of a single node,
// and returns when every node sees every other one run. The caller owes it a
// Stop.
func StartCluster(ctx context.Context, config Config) (*Cluster, error) {
	var c Cluster
	prepare := c.preparePrivate
	if config.Image != "" {
		prepare = func(ctx context.Context) error { return c.prepareContainers(ctx, config.Image) }
	}
	err := prepare(ctx)
	if err == nil {
		err = c.start(ctx)
	}
	if err != nil {
		// ctx may be what ended the start; cleaning up must work all the same.
		return nil, errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
	}
	return &c, nil
}

// Nodes returns a handle for each node. Stopping them is [Cluster.Stop]'s task.
func (c *Cluster) Nodes() []*Node { return slices.Clone(c.nodes) }

// Stop ends all nodes and removes their data.
func (c *Cluster) Stop(ctx context.Context) error {
	err := c.each(func(r *Node) error { return r.Stop(ctx) })
	if c.epmd != nil {
		err = errors.Join(err, c.epmd.Stop(ctx))
	}
	return err
}

// start launches the nodes that have been prepared: they find each other by
// themselves.
func (c *Cluster) start(ctx context.Context) error {
	if err := c.each(func(r *Node) error { return r.Start(ctx) }); err != nil {
		return err
	}
	return c.AwaitWhole(ctx)
}

// AwaitWhole returns when every node sees every other one run, or with an error when ctx ends.
func (c *Cluster) AwaitWhole(ctx context.Context) error {
	return c.each(func(r *Node) error { return r.Wrap("join", lifecycle.Await(ctx, r.seesAll)) })
}

// each does something with all nodes at once.
func (c *Cluster) each(do func(*Node) error) error {
	errs := make([]error, len(c.nodes))
	var all sync.WaitGroup
	for i, r := range c.nodes {
		all.Go(func() { errs[i] = do(r) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// add takes on a node that has been prepared.
func (c *Cluster) add(r *Node) {
	r.Name = fmt.Sprintf("RabbitMQ node %d", len(c.nodes)+1)
	c.nodes = append(c.nodes, r)
}

// seesAll returns nil once the node sees the whole cluster run.
func (r *Node) seesAll(ctx context.Context) error {
	answer, err := r.ask(ctx, "/api/nodes")
	if err != nil {
		return err
	}
	var nodes []struct{ Running bool }
	if err := json.Unmarshal(answer, &nodes); err != nil {
		return err
	}
	running := 0
	for _, n := range nodes {
		if n.Running {
			running++
		}
	}
	if running != clusterSize {
		return fmt.Errorf("it sees %d nodes run, want %d", running, clusterSize)
	}
	return nil
}
