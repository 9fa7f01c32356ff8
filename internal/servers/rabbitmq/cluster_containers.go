package rabbitmq

import (
	"context"

	"github.com/delaybridge/delaybridge/internal/servers/containers"
)

// prepareContainers makes nodes in a network of their own, where they know each
// other by host name.
func (c *Cluster) prepareContainers(ctx context.Context, image string) error {
	members := make([]*containers.Container, clusterSize)
	for i := range members {
		r, b, err := newContainer(image)
		if err != nil {
			return err
		}
		c.add(r)
		members[i] = b
	}
	if err := containers.Join(ctx, members...); err != nil {
		return err
	}
	m := membershipOf(c.nodes)
	for _, b := range members {
		if err := configureContainer(b, m); err != nil {
			return err
		}
	}
	return nil
}
