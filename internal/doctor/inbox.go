package doctor

import (
	"context"
	"fmt"

	"github.com/delaybridge/delaybridge/internal/wire"
)

// inbox looks whether messages are taken in, and whether a bridge does it.
func (x *examination) inbox(ctx context.Context) (findings []Finding, err error) {
	queues, err := x.queues(ctx)
	if err != nil {
		return nil, err
	}
	name := x.Topology.Inbox()
	q, there := queues[name]
	if there && q.Consumers == 0 && q.Ready != nil && *q.Ready > 0 {
		findings = append(findings, find(inboxUnattended, "queue "+name, fmt.Sprintf("messages: %d, consumers: 0", *q.Ready), "delaybridge bridge"))
	}
	consumers, err := x.consumers(ctx)
	for _, c := range consumers {
		if _, ours := wire.BridgeOf(c.Tag); c.Queue.Name == name && !ours {
			findings = append(findings, find(inboxTaken, "consumer "+c.Tag,
				fmt.Sprintf("user %s, connection %s, consumes %s and is no bridge", c.Channel.User, c.Channel.Connection, name), x.closing(c)))
		}
	}
	return findings, err
}
