package redisbridge

import (
	"context"
	"fmt"
	"time"

	"github.com/delaybridge/delaybridge/message"
)

// ShardFlow is what goes through a shard.
type ShardFlow struct {
	Shard int
	// Now is Redis' clock.
	Now time.Time
	// Left is how many messages were claimed and not put back, ever. It only tells by
	// its difference to what it was before.
	Left int64
	// Delivered are the last deliveries that consumers have told Redis, the last one
	// first.
	Delivered []Delivery
}

// Delivery is a message that a consumer has said that it has. All instants but Due of a
// message out of a tier, which its publisher has computed, are by Redis' clock.
type Delivery struct {
	Due, At time.Time
	// Path is the way that it took, or empty where that is not known.
	Path message.Path
}

// Late is how long after it was due the message was delivered.
func (d Delivery) Late() time.Duration { return d.At.Sub(d.Due) }

// deliveriesWithin is the largest part of ParkConfig.Remember that ParkConfig.Window may
// be, so that what was delivered lately can be told from what is remembered for long.
const deliveriesWithin = 2

// Flow returns what goes through each shard, with at most that many deliveries of each, and
// only those after what Flow returned before, if that is not nil. It costs one command per
// shard, and Redis some 2 µs per delivery. There are no deliveries where
// ParkConfig.Remember is not that of the consumers, or less than twice ParkConfig.Window,
// nor any of messages that were rescheduled, or whose consumers do not ask Redis.
func (p *Park) Flow(ctx context.Context, before []ShardFlow, most int) ([]ShardFlow, error) {
	if err := p.check(ctx); err != nil {
		return nil, fmt.Errorf("look at the flow: %w", err)
	}
	if p.config.Window > p.config.Remember/deliveriesWithin {
		most = 0
	}
	flows := make([]ShardFlow, len(p.keys))
	for n := range p.keys {
		var since time.Time
		if n < len(before) {
			since = before[n].Now
		}
		var err error
		if flows[n], err = p.flowOf(ctx, n, since, most); err != nil {
			return nil, fmt.Errorf("look at the flow of shard %d: %w", n, err)
		}
	}
	return flows, nil
}

func (p *Park) flowOf(ctx context.Context, n int, since time.Time, most int) (ShardFlow, error) {
	k := p.keys[n]
	answer, err := p.scripts.flow.Run(ctx, p.config.Client, []string{k.state, k.kept, k.envelopes},
		p.config.Remember.Milliseconds(), unixMS(since), most).Slice()
	if err != nil {
		return ShardFlow{}, classify(err)
	}
	r := reply{rest: answer}
	f := ShardFlow{Shard: n, Left: r.int(), Now: time.UnixMilli(r.int())}
	for len(r.rest) > 0 && r.err == nil {
		due, at := r.int(), r.int()
		f.Delivered = append(f.Delivered, Delivery{instantOf(due), instantOf(at), message.Path(r.string())})
	}
	return f, r.err
}
