package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/internal/wire"
)

const (
	// looks is how often a queue has to hold due messages that are not taken, each time
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
// refuse, those that do not run, and those to which what comes back is a cycle.
func (x *examination) suspects(ctx context.Context, queues map[string]queue) (suspects, commands []string, err error) {
	bindings, err := x.bindings(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, b := range x.boundQueues(queues, bindings) {
		q := b.queue
		if limit, full := q.full(); full {
			suspects = append(suspects, fmt.Sprintf("queue %s is full and refuses messages (%s, consumers: %d)", q.Name, limit, q.Consumers))
			commands = append(commands, x.lift(q))
		}
		if q.State != "" && !slices.Contains([]string{"running", "idle", "flow"}, q.State) {
			suspects = append(suspects, fmt.Sprintf("queue %s is %s", q.Name, q.State))
			commands = append(commands, "rabbitmq-diagnostics cluster_status")
		}
		if into, cycle := x.cycle(q); cycle {
			suspects = append(suspects, fmt.Sprintf("queue %s dead-letters into %s, so what comes back is a cycle", q.Name, into))
			commands = append(commands, b.unbinding...)
		}
	}
	if len(suspects) == 0 {
		commands = []string{"rabbitmqctl list_queues " + x.on() + " name type state messages policy"}
	}
	slices.Sort(commands)
	return suspects, slices.Compact(commands), nil
}

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
