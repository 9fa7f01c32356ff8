package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/topology"
)

const (
	// looks is how often a queue has to hold due messages that nobody takes, each time
	// no fewer than before, to be stuck; a busy one holds a few at any instant.
	looks = 3
	// lookAgain is longer than the broker's statistics are old.
	lookAgain = 6 * time.Second
)

// waiting looks for tiers and lanes whose due messages are not taken.
func (x *examination) waiting(ctx context.Context) ([]Finding, error) {
	queues, err := x.queues(ctx)
	if err != nil {
		return nil, err
	}
	stuck := map[string]int{}
	for _, q := range x.Topology.Queues() {
		if n := queues[q.Name].notTaken(); n > 0 {
			stuck[q.Name] = n
		}
	}
	for look := 1; look < looks && len(stuck) > 0; look++ {
		if err := again(ctx, lookAgain); err != nil {
			return nil, err
		}
		if queues, err = x.queues(ctx); err != nil {
			return nil, err
		}
		for name, before := range stuck {
			if n := queues[name].notTaken(); n == 0 || n < before {
				delete(stuck, name)
			} else {
				stuck[name] = n
			}
		}
	}
	if len(stuck) == 0 {
		return nil, nil
	}
	suspects, commands, err := x.suspects(ctx, queues)
	var findings []Finding
	for _, name := range slices.Sorted(maps.Keys(stuck)) {
		found := fmt.Sprintf("messages that are due and not taken: %d", stuck[name])
		if len(suspects) > 0 {
			found += "; " + strings.Join(suspects, "; ")
		}
		findings = append(findings, find(tierWedged, "queue "+name, found, commands...))
	}
	return findings, err
}

// notTaken is how many messages have been dead-lettered and not confirmed.
func (q queue) notTaken() int {
	if q.Messages == nil || q.Ready == nil || q.Unacknowledged == nil {
		return 0
	}
	return max(0, *q.Messages-*q.Ready-*q.Unacknowledged)
}

// suspects are the queues that due messages lead to, and that take none: full ones that
// refuse, and those that do not run.
func (x *examination) suspects(ctx context.Context, queues map[string]queue) (suspects, commands []string, err error) {
	var bindings []binding
	if err := x.Management.Get(ctx, "bindings/{vhost}", &bindings); err != nil {
		return nil, nil, err
	}
	reached := map[string]bool{x.Topology.ReadyExchange(): true, x.Topology.RetryExchange(): true, x.Topology.Unrouted(): true}
	for _, e := range x.Topology.Entries() {
		reached[x.Topology.ReadyExchangeOf(e.Name)] = true
	}
	for again := true; again; { // exchanges may be bound to exchanges
		again = false
		for _, b := range bindings {
			if reached[b.Source] && b.DestinationType == topology.KindExchange && !reached[b.Destination] {
				reached[b.Destination], again = true, true
			}
		}
	}
	seen := map[string]bool{}
	for _, b := range bindings {
		q, there := queues[b.Destination]
		if !reached[b.Source] || b.DestinationType != topology.KindQueue || !there || seen[q.Name] {
			continue
		}
		seen[q.Name] = true
		if limit, full := q.full(); full {
			suspects = append(suspects, fmt.Sprintf("queue %s is full and refuses messages (%s, consumers: %d)", q.Name, limit, q.Consumers))
			if q.Policy != "" && q.Arguments["x-max-length"] == nil && q.Arguments["x-max-length-bytes"] == nil {
				commands = append(commands, "rabbitmqctl clear_policy "+x.on()+" "+shell(q.Policy))
			} else {
				commands = append(commands, "rabbitmqctl list_consumers "+x.on())
			}
		}
		if q.State != "" && !slices.Contains([]string{"running", "idle", "flow"}, q.State) {
			suspects = append(suspects, fmt.Sprintf("queue %s is %s", q.Name, q.State))
			commands = append(commands, "rabbitmq-diagnostics cluster_status")
		}
	}
	if len(suspects) == 0 {
		commands = []string{"rabbitmqctl list_queues " + x.on() + " name type state messages policy"}
	}
	slices.Sort(commands)
	return suspects, slices.Compact(commands), nil
}

// full reports whether the queue is at its limit, and refuses what is beyond.
func (q queue) full() (limit string, full bool) {
	property := func(name string) any {
		if v, ok := q.EffectivePolicy[name]; ok {
			return v
		}
		return q.Arguments["x-"+name]
	}
	if overflow, _ := property("overflow").(string); !strings.HasPrefix(overflow, "reject-publish") || q.Messages == nil {
		return "", false
	}
	for _, v := range []any{q.Arguments["x-max-length"], q.EffectivePolicy["max-length"]} {
		if most, ok := v.(json.Number); ok {
			if n, err := most.Int64(); err == nil && int64(*q.Messages) >= n {
				return fmt.Sprintf("max-length %d", n), true
			}
		}
	}
	return "", false
}
