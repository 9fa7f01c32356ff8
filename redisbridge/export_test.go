package redisbridge

import (
	"context"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/tracing"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store"
	"github.com/delaybridge/delaybridge/topology"
)

// ClaimAndVanish claims what a shard has due, as a bridge does that dies right
// afterwards, and returns how many messages it took along.
func ClaimAndVanish(ctx context.Context, b *Bridge, shard int) (int, error) {
	c, err := b.shards[shard].claim(ctx, claimMost, 0)
	return len(c.Messages), err
}

// Claim claims what a shard has due, and returns how many messages that is, and a call that
// says that the broker has them.
func Claim(ctx context.Context, b *Bridge, shard int) (n int, settle func() error, err error) {
	s := b.shards[shard]
	c, err := s.claim(ctx, claimMost, 0)
	s.turn = c.Turn // so the next claim returns none of them to the schedule
	return len(c.Messages), func() error { return b.store.Settle(ctx, shard, c.Messages) }, err
}

// ConfirmedLate has a bridge claim what a shard has due, another one put that back once
// the lease is over, and the first one hear only then that the broker has it. It returns
// how many messages that is.
func ConfirmedLate(ctx context.Context, first, heir *Bridge, shard int) (int, error) {
	n, settle, err := Claim(ctx, first, shard)
	if err != nil || n == 0 {
		return 0, err
	}
	for status := int64(0); status != store.AnswerOwned && err == nil; {
		var taken store.Claimed
		taken, err = heir.shards[shard].claim(ctx, 0, 0)
		status = taken.Status
	}
	if err != nil {
		return 0, err
	}
	return n, settle()
}

// ShardOf returns the shard of an ID.
func ShardOf(b *Bridge, id string) int { return ShardIn(b.config.Topology, id) }

// ShardIn returns the shard of an ID, by the same rule as lua/lib.lua.
func ShardIn(t *topology.Topology, id string) int {
	sum := sha1.Sum([]byte(id))
	return int(binary.BigEndian.Uint32(sum[4:]) % uint32(t.Shards()))
}

// keyIn returns a key of the shard of an ID.
func keyIn(t *topology.Topology, id, key string) string {
	return fmt.Sprintf("{%s:%d}:%s", t.Prefix(), ShardIn(t, id), key)
}

// EnvelopesOf returns the key of the hash that an ID's envelope is in.
func EnvelopesOf(t *topology.Topology, id string) string {
	sum := sha1.Sum([]byte(id))
	return keyIn(t, id, fmt.Sprintf("env:%x%d", sum[:2], sum[2]>>7))
}

// Holds reports whether Redis has a message that waits for the bridge, parked or claimed.
func Holds(ctx context.Context, client redis.UniversalClient, t *topology.Topology, id string) (bool, error) {
	there, err := client.HExists(ctx, EnvelopesOf(t, id), id).Result()
	if err != nil || !there {
		return false, err
	}
	switch err := client.ZScore(ctx, keyIn(t, id, "kept"), id).Err(); {
	case errors.Is(err, redis.Nil):
		return true, nil
	default:
		return false, err
	}
}

// Forget has Redis know nothing of an ID any more, as a bridge does in time.
func Forget(ctx context.Context, client redis.UniversalClient, t *topology.Topology, id string) error {
	return errors.Join(client.ZRem(ctx, keyIn(t, id, "kept"), id).Err(), client.HDel(ctx, EnvelopesOf(t, id), id).Err())
}

// PlanFor is planFor, for its property test.
func PlanFor(leads []time.Duration, due, promoteAt, now int64) plan {
	return planFor(leads, due, promoteAt, now)
}

// AheadMS is ahead.
const AheadMS = int64(ahead / time.Millisecond)

// Lane, Left and Postponed are the fields of a plan.
func (p plan) Lane() int64      { return p.lane.Milliseconds() }
func (p plan) Left() int64      { return p.left.Milliseconds() }
func (p plan) Postponed() int64 { return p.postponed }

// LeaveEntry has the schedule hold an entry of an ID for a message due at an instant, as a
// crash of Redis in the middle of a script may.
func LeaveEntry(ctx context.Context, p *Park, id string, due time.Time) error {
	const bucketMS = 2000
	t, client, part := p.config.Topology, p.config.Client, "0"
	at := due.Add(-ahead).UnixMilli()
	for _, lead := range t.Leads() {
		if time.Until(due) >= lead {
			part, at = strconv.FormatInt(lead.Milliseconds(), 10), due.Add(-lead).UnixMilli()
		}
	}
	schedule, bucket := keyIn(t, id, "schedule"), strconv.FormatInt(at/bucketMS, 10)
	added, err := client.ZAdd(ctx, schedule+":"+part+":"+bucket, redis.Z{Score: float64(at % bucketMS), Member: id}).Result()
	return errors.Join(err, client.HIncrBy(ctx, schedule+":counts", part, added).Err(), client.SAdd(ctx, schedule, part).Err(),
		client.ZAdd(ctx, schedule+":"+part, redis.Z{Score: float64(at / bucketMS), Member: bucket}).Err())
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
	return p.config.Client.HIncrBy(ctx, fmt.Sprintf("{%s:%d}:schedule:counts", p.config.Topology.Prefix(), shard), part, by).Err()
}

// Shown is what the list of queues says after a glance.
func Shown(g Glance) string { return seen(&g).text(time.Time{}) }

// LateClass returns the largest lateness, in ms, that is counted like this one.
func LateClass(ms int64) int64 { return most(classOf(ms)) }

// SinceStamp is sinceStamp.
func SinceStamp(d *amqp.Delivery, w message.When, within time.Duration, now time.Time) message.When {
	return sinceStamp(d, w, within, now)
}

// LooksAtRegisterOnceSubscribed reports whether a bridge looks at the register anew when its
// subscription begins.
func LooksAtRegisterOnceSubscribed(b *Bridge) bool {
	b.calls().Subscribed()
	return len(b.register.rush) == 1
}
