package redisbridge

import (
	"context"
	"errors"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/tracing"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/topology"
)

// ClaimAndVanish claims what a shard has due, as a bridge does that dies right
// afterwards, and returns how many messages it took along.
func ClaimAndVanish(ctx context.Context, b *Bridge, shard int) (int, error) {
	c, err := b.shards[shard].claim(ctx, claimMost, 0)
	return len(c.messages), err
}

// Claim claims what a shard has due, and returns how many messages that is, and a call that
// says that the broker has them.
func Claim(ctx context.Context, b *Bridge, shard int) (n int, settle func() error, err error) {
	s := b.shards[shard]
	c, err := s.claim(ctx, claimMost, 0)
	s.turn = c.turn // so the next claim returns none of them to the schedule
	done := make([]outcome, len(c.messages))
	for i, p := range c.messages {
		done[i].parked = p
	}
	return len(done), func() error { return s.settle(ctx, done) }, err
}

// ConfirmedLate has a bridge claim what a shard has due, another one put that back once
// the lease is over, and the first one hear only then that the broker has it. It returns
// how many messages that is.
func ConfirmedLate(ctx context.Context, first, heir *Bridge, shard int) (int, error) {
	n, settle, err := Claim(ctx, first, shard)
	if err != nil || n == 0 {
		return 0, err
	}
	for status := int64(0); status != answerClaimed && err == nil; {
		var taken claimed
		taken, err = heir.shards[shard].claim(ctx, 0, 0)
		status = taken.status
	}
	if err != nil {
		return 0, err
	}
	return n, settle()
}

// ShardOf returns the shard of an ID.
func ShardOf(b *Bridge, id string) int { return ShardIn(b.config.Topology, id) }

// ShardIn returns the shard of an ID.
func ShardIn(t *topology.Topology, id string) int {
	shard, _ := locate(id, t.Shards())
	return shard
}

// EnvelopesOf returns the key of the hash that an ID's envelope is in.
func EnvelopesOf(t *topology.Topology, id string) string {
	shard, slot := locate(id, t.Shards())
	return keysOf(t, shard).slot(slot)
}

// Holds reports whether Redis has a message that waits for the bridge, parked or claimed.
func Holds(ctx context.Context, client redis.UniversalClient, t *topology.Topology, id string) (bool, error) {
	shard, slot := locate(id, t.Shards())
	k := keysOf(t, shard)
	there, err := client.HExists(ctx, k.slot(slot), id).Result()
	if err != nil || !there {
		return false, err
	}
	switch err := client.ZScore(ctx, k.kept, id).Err(); {
	case errors.Is(err, redis.Nil):
		return true, nil
	default:
		return false, err
	}
}

// Forget has Redis know nothing of an ID any more, as a bridge does in time.
func Forget(ctx context.Context, client redis.UniversalClient, t *topology.Topology, id string) error {
	shard, slot := locate(id, t.Shards())
	k := keysOf(t, shard)
	return errors.Join(client.ZRem(ctx, k.kept, id).Err(), client.HDel(ctx, k.slot(slot), id).Err())
}

// PlanFor is planFor, for its property test.
func PlanFor(leads []time.Duration, due, promoteAt, now int64) plan {
	return planFor(leads, due, promoteAt, now)
}

// Classify is classify.
func Classify(err error) error { return classify(err) }

// AheadMS is ahead.
const AheadMS = int64(ahead / time.Millisecond)

// Lane, Left and Postponed are the fields of a plan.
func (p plan) Lane() int64      { return p.lane.Milliseconds() }
func (p plan) Left() int64      { return p.left.Milliseconds() }
func (p plan) Postponed() int64 { return p.postponed }

// ServerClock is serverClock with its methods exported.
type ServerClock struct{ clock *serverClock }

// NewServerClock returns one without samples.
func NewServerClock() ServerClock { return ServerClock{newServerClock()} }

// Learn is learn.
func (c ServerClock) Learn(asked, heard time.Time, readUS int64) { c.clock.learn(asked, heard, readUS) }

// Forget is forget.
func (c ServerClock) Forget() { c.clock.forget() }

// Bounds is bounds.
func (c ServerClock) Bounds(t time.Time) (least, most int64, known bool) { return c.clock.bounds(t) }

// Batches is batches with parking made of nothing but its size.
type Batches struct{ batches batcher }

// NewBatches calls send with the size of each batch.
func NewBatches(send func(n int)) *Batches {
	return &Batches{batcher{send: func(batch []*pendingPark) {
		send(len(batch))
		for _, one := range batch {
			one.answer <- nil
		}
	}}}
}

// Park parks a message whose envelope has so many bytes.
func (l *Batches) Park(ctx context.Context, bytes int) error {
	return l.batches.park(ctx, &pendingPark{stored: make([]byte, bytes), answer: make(chan error, 1)})
}

// BatchBytes is batchBytes.
const BatchBytes = batchBytes

// LeaveEntry has the schedule hold an entry of an ID for a message due at an instant, as a
// crash of Redis in the middle of a script may.
func LeaveEntry(ctx context.Context, p *Park, id string, due time.Time) error {
	shard, _ := locate(id, len(p.keys))
	k, part := p.keys[shard], "0"
	at := due.Add(-ahead).UnixMilli()
	for _, lead := range p.config.Topology.Leads() {
		if time.Until(due) >= lead {
			part, at = strconv.FormatInt(lead.Milliseconds(), 10), due.Add(-lead).UnixMilli()
		}
	}
	bucket := at / bucketMS
	client := p.config.Client
	added, err := client.ZAdd(ctx, k.bucket(part, bucket), redis.Z{Score: float64(at % bucketMS), Member: id}).Result()
	return errors.Join(err, client.HIncrBy(ctx, k.counts(), part, added).Err(), client.SAdd(ctx, k.schedule, part).Err(),
		client.ZAdd(ctx, k.part(part), redis.Z{Score: float64(bucket), Member: bucket}).Err())
}

// NewAcks returns what takes the tags of deliveries that are dealt with or to be
// rejected, and what acknowledges all of the former.
func NewAcks(ch amqp.Acknowledger, most int) (add, reject func(tag uint64), flush func()) {
	a := newAcks(ch, most)
	return a.add, a.reject, a.flush
}

// PromotingSpan returns what begins and ends the span of a message that is promoted with
// these headers.
func PromotingSpan(provider trace.TracerProvider, headers amqp.Table) func() {
	s := &shard{b: &Bridge{tracer: tracing.New(provider, tracedAs)}}
	out := broker.Outgoing{Exchange: "lane", RoutingKey: "order.unpaid", Publishing: amqp.Publishing{MessageId: "o-1", Headers: headers}}
	path := message.PathLane("1m")
	return func() { endPromoting(s.startPromoting(&out, path), nil) }
}

// Miscount adds to the running count of a shard's first lane.
func Miscount(ctx context.Context, p *Park, shard int, by int64) error {
	part := strconv.FormatInt(p.config.Topology.Leads()[0].Milliseconds(), 10)
	return p.config.Client.HIncrBy(ctx, p.keys[shard].counts(), part, by).Err()
}

// Shown is what the list of queues says after a glance.
func Shown(g Glance) string { return seen(&g).text(time.Time{}) }

// LateClass returns the largest lateness, in ms, that is counted like this one.
func LateClass(ms int64) int64 { return most(classOf(ms)) }

// SameOwner reports whether two owners may be the same.
func SameOwner(a, b Owner) bool { return a.is(b) }

// SinceStamp is sinceStamp.
func SinceStamp(d *amqp.Delivery, w message.When, within time.Duration, now time.Time) message.When {
	return sinceStamp(d, w, within, now)
}

// LooksAtRegisterOnceSubscribed reports whether a bridge looks at the register anew when its
// subscription begins.
func LooksAtRegisterOnceSubscribed(b *Bridge) bool {
	b.hear(&redis.Subscription{Kind: "subscribe"})
	return len(b.register.rush) == 1
}
