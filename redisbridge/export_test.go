package redisbridge

import (
	"context"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/redisbridge/internal/store"
	"github.com/delaybridge/delaybridge/topology"
)

// claim claims what a shard has due, up to room messages, as the next call after a turn.
func claim(ctx context.Context, b *Bridge, shard, room int, turn int64) (store.Claimed, error) {
	return b.store.Claim(ctx, shardOf(b, shard), store.Claim{
		Bridge: b.id, Preferred: b.register.Prefers(shard), Lease: b.config.Lease, Grace: time.Second, Turn: turn, Room: room,
	})
}

// shardOf returns the shard with a number.
func shardOf(b *Bridge, shard int) *store.Shard {
	all, _ := b.store.Shards()
	return all[shard]
}

const claimMost = 256

// ClaimAndVanish claims what a shard has due, as a bridge does that dies right
// afterwards, and returns how many messages it took along.
func ClaimAndVanish(ctx context.Context, b *Bridge, shard int) (int, error) {
	c, err := claim(ctx, b, shard, claimMost, 0)
	return len(c.Messages), err
}

// Claim claims what a shard has due, as the next call of a bridge that goes on, and returns
// how many messages that is, and a call that says that the broker has them.
func Claim(ctx context.Context, b *Bridge, shard int) (n int, settle func() error, err error) {
	state, err := b.config.Client.HGetAll(ctx, fmt.Sprintf("{%s:%d}:state", b.config.Topology.Prefix(), shard)).Result()
	if err != nil {
		return 0, nil, err
	}
	var turn int64
	if state["owner"] == b.id {
		if turn, err = strconv.ParseInt(state["turn"], 10, 64); err != nil {
			return 0, nil, err
		}
	}
	c, err := claim(ctx, b, shard, claimMost, turn)
	return len(c.Messages), func() error { return b.store.Settle(ctx, shardOf(b, shard), c.Messages) }, err
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
		taken, err = claim(ctx, heir, shard, 0, 0)
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

// LeaveEntry has the schedule hold an entry of an ID for a message due at an instant, as a
// crash of Redis in the middle of a script may.
func LeaveEntry(ctx context.Context, p *Park, id string, due time.Time) error {
	const bucketMS = 2000
	t, client, part := p.config.Topology, p.config.Client, "0"
	at := due.Add(-50 * time.Millisecond).UnixMilli() // as the scripts do

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

// Miscount adds to the running count of a shard's first lane.
func Miscount(ctx context.Context, p *Park, shard int, by int64) error {
	part := strconv.FormatInt(p.config.Topology.Leads()[0].Milliseconds(), 10)
	return p.config.Client.HIncrBy(ctx, fmt.Sprintf("{%s:%d}:schedule:counts", p.config.Topology.Prefix(), shard), part, by).Err()
}

// LateClass returns the largest lateness, in ms, that is counted like this one.
func LateClass(ms int64) int64 { return most(classOf(ms)) }

// LooksAtRegisterOnceSubscribed reports whether a bridge looks at the register anew when its
// subscription begins.
func LooksAtRegisterOnceSubscribed(b *Bridge) bool {
	b.calls().Subscribed()
	return len(b.hurry) == 1
}

// BeginReshard begins to change the number of shards, whether or not bridges are alive.
func BeginReshard(ctx context.Context, p *Park, shards int) error {
	return p.store.BeginReshard(ctx, shards)
}

// MoveOnce does a step of each shard from which messages move, and reports whether that is over.
func MoveOnce(ctx context.Context, p *Park) (over bool, err error) {
	if _, err := p.store.ReadLayout(ctx); err != nil {
		return false, err
	}
	all, _ := p.store.Shards()
	for _, shard := range all {
		if p.store.Moves(shard) {
			_, failed := p.store.Move(ctx, shard)
			err = errors.Join(err, failed)
		}
	}
	return p.store.Layout().Next == 0, err
}
