package rabbitmq

import (
	"context"
	"strconv"

	"github.com/delaybridge/delaybridge/internal/servers/lifecycle"
	"github.com/delaybridge/delaybridge/internal/servers/private"
)

// preparePrivate makes nodes that run the distribution's rabbitmq-server.
func (c *Cluster) preparePrivate(ctx context.Context) error {
	mapper, err := c.startEpmd(ctx)
	if err != nil {
		return err
	}
	homes := make([]*private.Node, clusterSize)
	for i := range homes {
		r, n, err := newPrivate()
		if err != nil {
			return err
		}
		c.add(r)
		homes[i] = n
	}
	m := membershipOf(c.nodes)
	for i, n := range homes {
		if err := configurePrivate(c.nodes[i], n, mapper, m); err != nil {
			return err
		}
	}
	return nil
}

// startEpmd starts the Erlang port mapper that all nodes share, and returns its
// port. It must not be in the process group of a node, with which it would die.
func (c *Cluster) startEpmd(ctx context.Context) (int, error) {
	n, err := private.New("epmd", "rabbitmq", 1)
	if err != nil {
		return 0, err
	}
	number := n.Ports[0].Number
	n.Program = []string{"epmd", "-port", strconv.Itoa(number), "-address", "127.0.0.1"}
	epmd := &lifecycle.Server{Name: "epmd", Instance: n, Probe: func(ctx context.Context) error {
		conn, err := lifecycle.Dialer(ctx)("tcp", lifecycle.Loopback(number))
		if err != nil {
			return err
		}
		return conn.Close()
	}}
	if err := epmd.StartOrDiscard(ctx); err != nil {
		return 0, err
	}
	c.epmd = epmd
	return number, nil
}
