package topology

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"time"
)

// Flow is what goes into queues, and what is there.
type Flow struct {
	// In is how many messages a second publishers and bridges have sent there, and Change
	// by how many a second Messages has grown, both of some five seconds.
	In, Change float64
	// Messages is how many are there. NotTaken of them are due, and not taken by the queue
	// that they lead to.
	Messages, NotTaken int
}

// Flows are those of a topology, as the management API knows them: up to ten seconds late.
type Flows struct {
	// Tiers are by TTL, as are Lanes, those of all shards together. Both include those
	// of the entries beside the default one.
	Tiers, Lanes map[time.Duration]Flow
	Inbox        Flow
	// Counted is false where the broker is set to count no messages (rates_mode): then In
	// is not known.
	Counted bool
}

// flowPage is how many queues are asked for at a time; the API allows no more.
const flowPage = 500

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

// Flows asks for tiers, lanes and inbox alone, however many other queues there are.
func (t *Topology) Flows(ctx context.Context, m *Management) (Flows, error) {
	f := Flows{Tiers: map[time.Duration]Flow{}, Lanes: map[time.Duration]Flow{}}
	var overview struct {
		RatesMode string `json:"rates_mode"`
	}
	if err := m.query(ctx, "overview", url.Values{"columns": {"rates_mode"}}, &overview); err != nil {
		return Flows{}, fmt.Errorf("topology: look at the flow: %w", err)
	}
	f.Counted = overview.RatesMode != "none"
	queues := map[string]Flow{}
	counted, err := pagesOf[countedQueue](ctx, m, `^`+regexp.QuoteMeta(t.prefix)+`\.(tier|lane|inbox)`, flowColumns)
	if err != nil {
		return Flows{}, fmt.Errorf("topology: look at the flow: %w", err)
	}
	for _, q := range counted {
		queues[q.Name] = Flow{q.Stats.Publish.Rate, q.Change.Rate, q.All, max(0, q.All-q.Ready-q.Taken)}
	}
	f.Inbox = queues[t.Inbox()]
	t.sumFlows(&f, queues)
	return f, nil
}

// pagesOf asks for some columns of the queues whose names match.
func pagesOf[Q any](ctx context.Context, m *Management, names, columns string) (all []Q, err error) {
	for page, pages := 1, 1; page <= pages; page++ {
		var answer struct {
			Pages int `json:"page_count"`
			Items []Q `json:"items"`
		}
		err := m.query(ctx, "queues/{vhost}", url.Values{
			"page": {strconv.Itoa(page)}, "page_size": {strconv.Itoa(flowPage)}, "columns": {columns},
			"use_regex": {"true"}, "name": {names},
		}, &answer)
		if err != nil {
			return nil, err
		}
		pages = answer.Pages
		all = append(all, answer.Items...)
	}
	return all, nil
}

func (t *Topology) sumFlows(f *Flows, queues map[string]Flow) {
	add := func(sums map[time.Duration]Flow, ttl time.Duration, name string) {
		sum, q := sums[ttl], queues[name]
		sums[ttl] = Flow{sum.In + q.In, sum.Change + q.Change, sum.Messages + q.Messages, sum.NotTaken + q.NotTaken}
	}
	for _, entry := range t.sets() {
		for _, tier := range t.tiers {
			add(f.Tiers, tier.TTL, t.tierOf(entry, tier.TTL))
		}
		for _, ttl := range t.Leads() {
			for shard := range t.shards {
				add(f.Lanes, ttl, t.LaneOf(entry, ttl, shard))
			}
		}
	}
}

// sets names an entry of each set of tiers and lanes.
func (t *Topology) sets() []string {
	if len(t.entries) == 0 {
		return []string{""}
	}
	return []string{"", t.entries[0].Name} // they share one
}
