package connect

import (
	"context"
	"fmt"
	"time"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// layoutWithin is how long a command that is about RabbitMQ waits for what Redis says of shards.
const layoutWithin = 2 * time.Second

// NeededTopology returns the topology of the settings with the lanes of the shards that Redis has. Where Redis does
// not say, it is that of the settings, and standard error says so.
func NeededTopology(ctx context.Context, a *cli.App, settings cli.Config) *topology.Topology {
	t, err := TopologyInRedis(ctx, a, settings)
	if err != nil && ctx.Err() == nil {
		fmt.Fprintf(a.Err, "Redis does not say how many shards there are, so the setting counts: %d (%s)\n", t.Shards(), printable.Error(err))
	}
	return t
}

// TopologyInRedis is [NeededTopology] for those who say themselves that Redis does not answer.
func TopologyInRedis(ctx context.Context, a *cli.App, settings cli.Config) (*topology.Topology, error) {
	t := settings.Topology
	within, cancel := context.WithTimeout(ctx, layoutWithin)
	defer cancel()
	err := UsePark(a, settings, ParkUse{}, func(park *redisbridge.Park, _ cli.Config) error {
		needed, err := park.Topology(within)
		if err == nil {
			t = needed
		}
		return err
	})
	return t, err
}
