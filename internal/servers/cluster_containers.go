package servers

import (
	"context"
	"errors"
)

// prepareContainers makes nodes in a network of their own, where they know each
// other by host name.
func (c *Cluster) prepareContainers(ctx context.Context, image string) error {
	boxes := make([]*box, clusterSize)
	for i := range boxes {
		r, b, err := newRabbitMQContainer(image)
		if err != nil {
			return err
		}
		c.add(r)
		boxes[i] = b
	}
	shared, err := newBridge(ctx, boxes[0].engine)
	if err != nil {
		return err
	}
	m := membershipOf(c.nodes)
	for _, b := range boxes {
		if err := errors.Join(shared.enter(ctx, b), b.configureRabbitMQ(m)); err != nil {
			return err
		}
	}
	return nil
}
