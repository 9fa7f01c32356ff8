package sampler

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/delaybridge/delaybridge/internal/top"
	"github.com/delaybridge/delaybridge/topology"
)

// flowColumns are what is asked of each queue.
const flowColumns = "name,messages,messages_ready,messages_unacknowledged,messages_details.rate,message_stats.publish_details.rate"

// countedQueue is a queue with its statistics. They are absent of a queue that is new.
type countedQueue struct {
	Name   string `json:"name"`
	All    int    `json:"messages"`
	Ready  int    `json:"messages_ready"`
	Taken  int    `json:"messages_unacknowledged"`
	Change struct {
		Rate float64 `json:"rate"`
	} `json:"messages_details"`
	Stats struct {
		Publish struct {
			Rate float64 `json:"rate"`
		} `json:"publish_details"`
	} `json:"message_stats"`
}

// flowsOf asks for tiers, lanes and inbox alone, however many other queues there are.
func flowsOf(ctx context.Context, t *topology.Topology, m *topology.Management) (top.Flows, error) {
	var overview struct {
		RatesMode string `json:"rates_mode"`
	}
	if err := m.Get(ctx, "overview?columns=rates_mode", &overview); err != nil {
		return top.Flows{}, fmt.Errorf("look at the flow: %w", err)
	}
	var counted []countedQueue
	if err := m.Queues(ctx, `^`+regexp.QuoteMeta(t.Prefix())+`\.(tier|lane|inbox)`, flowColumns, &counted); err != nil {
		return top.Flows{}, fmt.Errorf("look at the flow: %w", err)
	}
	queues := map[string]top.Flow{}
	for _, q := range counted {
		queues[q.Name] = top.Flow{
			In: q.Stats.Publish.Rate, Change: q.Change.Rate, Messages: q.All, NotTaken: max(0, q.All-q.Ready-q.Taken),
		}
	}
	f := top.Flows{
		Tiers: map[time.Duration]top.Flow{}, Lanes: map[time.Duration]top.Flow{},
		Inbox: queues[t.Inbox()], Counted: overview.RatesMode != "none",
	}
	for _, tier := range t.TierQueues() {
		f.Tiers[tier.TTL] = sum(f.Tiers[tier.TTL], queues[tier.Name])
	}
	for _, ttl := range t.Leads() {
		for shard := range t.Shards() {
			f.Lanes[ttl] = sum(f.Lanes[ttl], queues[t.LaneOf("", ttl, shard)])
			if entries := t.Entries(); len(entries) > 0 { // which share one
				f.Lanes[ttl] = sum(f.Lanes[ttl], queues[t.LaneOf(entries[0].Name, ttl, shard)])
			}
		}
	}
	return f, nil
}

func sum(a, b top.Flow) top.Flow {
	return top.Flow{In: a.In + b.In, Change: a.Change + b.Change, Messages: a.Messages + b.Messages, NotTaken: a.NotTaken + b.NotTaken}
}
