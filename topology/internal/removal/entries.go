package removal

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/topology/internal/rabbitmq"
)

// nameOf names an entry by the exchange of it that is there.
func (p *pruning) nameOf(entry string) string {
	name := p.EntryExchangeOf(entry)
	if _, there := p.exchanges[name]; !there {
		name = p.ReadyExchangeOf(entry)
	}
	return name
}

// uses says who uses an entry, or nothing, and whether that may pass.
func (p *pruning) uses(entry string) (use string, passes bool) {
	name, ready := p.EntryExchangeOf(entry), p.ReadyExchangeOf(entry)
	if x, there := p.exchanges[name]; there {
		if !p.counted {
			return "whether it gets messages is not known, since the broker does not count them (rates_mode)", false
		}
		if rate := x.Stats.In.Rate; rate > 0 {
			return fmt.Sprintf("it gets %.3g messages a second", rate), true
		}
	}
	for _, b := range p.bindings {
		if b.DestinationType == rabbitmq.KindExchange && b.Destination == name {
			return "exchange " + b.Source + " leads to it", false
		}
		if b.Source == ready {
			return b.DestinationType + " " + b.Destination + " is bound to " + ready, false
		}
	}
	for _, q := range p.queues {
		if q.Arguments[rabbitmq.ArgDeadLetter] == name || q.EffectivePolicy["dead-letter-exchange"] == name {
			return "queue " + q.Name + " sends its dead letters there", false
		}
	}
	for _, x := range p.exchanges {
		if x.Arguments[rabbitmq.ArgAlternate] == name {
			return "it is the alternate exchange of " + x.Name, false
		}
	}
	return "", false
}

// closeEntry deletes the entry exchange, and notes down since when it is gone.
func (p *pruning) closeEntry(ctx context.Context, entry string) error {
	name := p.EntryExchangeOf(entry)
	x, there := p.exchanges[name]
	if there {
		if err := p.deleteExchange(ctx, x); err != nil {
			return err
		}
	}
	if _, known := p.closed[name]; there || !known {
		p.closed[name] = time.Now()
	}
	return nil
}

// awaitTaken notes down when neither the inbox nor Redis has messages of an entry any more, or
// says what has.
func (p *pruning) awaitTaken(ctx context.Context, entry string) error {
	ready, inbox := p.ReadyExchangeOf(entry), p.Inbox()
	passed, why, err := p.hasPassed(ctx, entry, inbox, p.closed[p.EntryExchangeOf(entry)])
	if err != nil {
		return err
	}
	if !passed {
		p.wait(rabbitmq.KindExchange, ready, "queue "+inbox+": "+why)
		if !p.DryRun {
			return nil
		}
	}
	if p.Parked == nil {
		p.wait(rabbitmq.KindExchange, ready, "whether Redis has messages of the entry is not known")
		return nil
	}
	n, err := p.Parked(ctx, entry)
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		delete(p.taken, entry)
		p.wait(rabbitmq.KindExchange, ready, fmt.Sprintf("whether Redis has messages of the entry is not known: %v", err))
		return nil
	case n > 0:
		delete(p.taken, entry)
		p.wait(rabbitmq.KindExchange, ready, fmt.Sprintf("Redis has %d messages of the entry", n))
		return nil
	}
	if p.taken[entry].IsZero() {
		p.taken[entry] = time.Now()
	}
	return nil
}

// entriesNeed reports whether a queue that is left has to stay for now, since messages of entries
// may still come to it. Of those that are going, Redis may have messages for its lanes.
func (p *pruning) entriesNeed(queue string, going, kept []string) bool {
	if len(p.Configured) > 0 || !p.IsShared(p.queues[queue]) {
		return false
	}
	if len(kept) > 0 {
		p.keep(rabbitmq.KindQueue, queue, "entry "+kept[0]+" is in use")
		return true
	}
	if _, isTier := p.TierOf(queue); isTier || p.DryRun {
		return false
	}
	for _, entry := range going {
		if p.taken[entry].IsZero() {
			p.wait(rabbitmq.KindQueue, queue, "messages of entry "+entry+" may still come to it")
			return true
		}
	}
	return false
}

// hasPassed reports whether all messages of an entry have left a queue that entered it before
// an instant, or else says what it waits for. The queue may get messages of other entries.
func (p *pruning) hasPassed(ctx context.Context, entry, name string, since time.Time) (passed bool, why string, err error) {
	key := passage{entry, name}
	if p.passed[key].Equal(since) && !since.IsZero() {
		return true, "", nil
	}
	if why, err = p.holds(ctx, name, since); err != nil {
		return false, "", err
	}
	q := p.queues[name]
	if ttl, waits := rabbitmq.Number(q.Arguments[rabbitmq.ArgMessageTTL]); why != "" && waits && q.Messages != nil && q.Ready != nil && q.Unacknowledged != nil {
		over := since.Add(time.Duration(ttl)*time.Millisecond + p.SettleTime)
		notTaken := *q.Messages - *q.Ready - *q.Unacknowledged
		if !time.Now().Before(over) && notTaken <= 0 {
			why = ""
		} else {
			why += "; those of the entry have left it by " + over.UTC().Format(time.RFC3339)
		}
	}
	if why != "" {
		return false, why, nil
	}
	p.passed[key] = since
	return true, "", nil
}

// pruneDue deletes the exchanges between the entries' tiers and lanes and their ready exchanges,
// where no queue leads to them any more.
func (p *pruning) pruneDue(ctx context.Context, kept []string) error {
	if len(p.Configured) > 0 {
		return nil
	}
	for _, name := range p.Due {
		x, there := p.exchanges[name]
		switch {
		case !there:
		case len(kept) > 0:
			p.keep(rabbitmq.KindExchange, name, "entry "+kept[0]+" is in use")
		case !p.DryRun && p.queueLeft():
			p.wait(rabbitmq.KindExchange, name, "queues lead to it")
		default:
			if err := p.deleteExchange(ctx, x); err != nil {
				return err
			}
		}
	}
	return nil
}

// queueLeft reports whether there is a tier or lane of entries.
func (p *pruning) queueLeft() bool {
	for _, q := range p.queues {
		if p.IsShared(q) {
			return true
		}
	}
	return false
}

// pruneReady deletes the ready exchange of an entry of which no message is on its way any more.
func (p *pruning) pruneReady(ctx context.Context, entry string) error {
	name := p.ReadyExchangeOf(entry)
	x, there := p.exchanges[name]
	if !there {
		return nil
	}
	taken := p.taken[entry]
	if taken.IsZero() && !p.DryRun {
		return nil // it is said what has messages of it
	}
	for _, queue := range slices.Sorted(maps.Keys(p.queues)) {
		if !p.IsShared(p.queues[queue]) {
			continue
		}
		since := taken // of a lane
		if since.IsZero() {
			since = time.Now()
		}
		if _, isTier := p.TierOf(queue); isTier {
			since = p.closed[p.EntryExchangeOf(entry)]
		}
		passed, why, err := p.hasPassed(ctx, entry, queue, since)
		if err != nil {
			return err
		}
		if !passed {
			p.wait(rabbitmq.KindExchange, name, "queue "+queue+": "+why)
			if !p.DryRun {
				return nil
			}
		}
	}
	if err := p.deleteExchange(ctx, x); err != nil {
		return err
	}
	for _, b := range p.bindings {
		if b.Source == name {
			p.deleted(rabbitmq.KindBinding, b.Name(), b.Details())
		}
	}
	return nil
}
