package sampler

import (
	"context"

	"github.com/delaybridge/delaybridge/internal/top"
	"github.com/delaybridge/delaybridge/topology"
)

// FlowsOf is what a look at the management API asks for.
func FlowsOf(ctx context.Context, t *topology.Topology, m *topology.Management) (top.Flows, error) {
	return flowsOf(ctx, t, m)
}
