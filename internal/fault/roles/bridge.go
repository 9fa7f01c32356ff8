package roles

import (
	"context"
	"time"

	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
)

// bridge does what `delaybridge bridge` does, and springs traps.
func (p *player) bridge(ctx context.Context) error {
	client, err := redisbridge.NewClient(p.Redis)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	b, err := redisbridge.New(redisbridge.Config{
		Client: client, AMQPURL: p.AMQP, Topology: p.topology, Name: p.Name, Lease: p.Bridge.Lease, RepairEvery: p.Bridge.RepairEvery, Tombstones: p.Tombstones, Quotas: quotas(), Logger: p.log,
		Observe: func(step redisbridge.Step, _ string, _ message.Path) { p.step(step.String()) },
	})
	if err != nil {
		return err
	}
	return b.Run(ctx)
}

// BridgeSettings is what only a bridge needs.
type BridgeSettings struct {
	Lease       time.Duration // 0 is the default
	RepairEvery time.Duration // 0 is the default
}
