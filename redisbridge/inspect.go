package redisbridge

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/topology"
)

// Inspection is what Redis holds under a prefix beside messages.
type Inspection struct {
	// Now is Redis' clock.
	Now time.Time
	// Version of the layout and number of shards that are noted down, both empty where
	// nothing was ever parked; WantVersion is this release's.
	Version, WantVersion, Shards string
	Bridges                      []Attendance
	// WithoutID counts the messages that these bridges have taken in since their start and
	// that came without a message-id.
	WithoutID int64
	// Reports are what the bridges of the register say of themselves.
	Reports []BridgeReport
	// Loss is the last one that a bridge has noted down, within a day, or zero.
	Loss Loss
	// Leases are those of the shards that the topology describes, in order.
	Leases []Lease
}

// Attendance is a bridge's entry in the register, which it renews every 15 seconds.
type Attendance struct {
	ID    string
	Until time.Time // then it counts as dead
}

// Lease says who owns a shard, and what waits for the owner.
type Lease struct {
	Shard int
	Owner string    // empty if no bridge ever owned it, or the last owner gave it up
	Ends  time.Time // zero where there is no owner
	// Next is when the next message is to be promoted; zero where there is none.
	Next time.Time
	// Claimed is how many messages the owner has claimed and not settled.
	Claimed int
}

// Inspect reads who is at work under the prefix of t. Unlike the methods of a [Park] it
// writes nothing, not even the layout where there is none yet, and reports a layout that
// is not that of t instead of refusing it.
func Inspect(ctx context.Context, client redis.UniversalClient, t *topology.Topology) (Inspection, error) {
	i, err := inspect(ctx, client, t)
	var odd *strconv.NumError
	switch classified := classify(err); {
	case err == nil:
		return i, nil
	case errors.As(err, &odd), ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled):
		return Inspection{}, fmt.Errorf("redisbridge: %w", err)
	case errors.Is(classified, ErrUnconfirmed): // there is nothing to be unsure of
		return Inspection{}, fmt.Errorf("redisbridge: %w: %w", ErrUnreachable, err)
	default:
		return Inspection{}, fmt.Errorf("redisbridge: %w", classified)
	}
}

func inspect(ctx context.Context, client redis.UniversalClient, t *topology.Topology) (Inspection, error) {
	keys := allKeys(t)
	us, err := newScripts().clock.Run(ctx, client, []string{keys[0].state}).Int64()
	if err != nil {
		return Inspection{}, err
	}
	i := Inspection{Now: time.UnixMicro(us), WantVersion: layoutVersion}
	layout, err := client.HGetAll(ctx, layoutKey(t)).Result()
	if err != nil {
		return Inspection{}, err
	}
	i.Version, i.Shards = layout["version"], layout["shards"]
	bridges, err := client.ZRangeWithScores(ctx, registerKey(t), 0, -1).Result()
	if err != nil {
		return Inspection{}, err
	}
	for _, b := range bridges {
		id, _ := b.Member.(string)
		if until := time.UnixMilli(int64(b.Score)); until.After(i.Now) {
			i.Bridges = append(i.Bridges, Attendance{id, until})
		}
	}
	reports, err := client.HGetAll(ctx, reportsKey(t)).Result()
	if err != nil {
		return Inspection{}, err
	}
	for _, b := range i.Bridges {
		report := readReport(b.ID, reports[b.ID])
		i.WithoutID += report.WithoutID
		i.Reports = append(i.Reports, report)
	}
	if i.Loss, _, err = lossOf(ctx, client, t); err != nil {
		return Inspection{}, err
	}
	for n, k := range keys {
		lease, err := inspectShard(ctx, client, k)
		if err != nil {
			return Inspection{}, err
		}
		lease.Shard = n
		i.Leases = append(i.Leases, lease)
	}
	return i, nil
}

func inspectShard(ctx context.Context, client redis.UniversalClient, k shardKeys) (Lease, error) {
	state, err := client.HMGet(ctx, k.state, "owner", "lease").Result()
	if err != nil {
		return Lease{}, err
	}
	var l Lease
	l.Owner, _ = state[0].(string)
	if ends, ok := state[1].(string); ok && l.Owner != "" {
		ms, err := strconv.ParseInt(ends, 10, 64)
		if err != nil {
			return Lease{}, fmt.Errorf("%s: its lease ends at %q", k.state, ends)
		}
		l.Ends = time.UnixMilli(ms)
	}
	claimed, err := client.ZCard(ctx, k.claimed).Result()
	if err != nil {
		return Lease{}, err
	}
	l.Claimed = int(claimed)
	parts, err := client.SMembers(ctx, k.schedule).Result()
	if err != nil {
		return Lease{}, err
	}
	for _, part := range parts {
		next, err := headOf(ctx, client, k, part)
		if err != nil {
			return Lease{}, err
		}
		if !next.IsZero() && (l.Next.IsZero() || next.Before(l.Next)) {
			l.Next = next
		}
	}
	return l, nil
}

// headOf returns the first instant of promotion in a part of the schedule, or zero. A
// bucket may be empty, or gone, when it is read; the next one has to do then.
func headOf(ctx context.Context, client redis.UniversalClient, k shardKeys, part string) (time.Time, error) {
	const someBuckets = 3
	buckets, err := client.ZRange(ctx, k.part(part), 0, someBuckets-1).Result()
	if err != nil {
		return time.Time{}, err
	}
	for _, b := range buckets {
		number, err := strconv.ParseInt(b, 10, 64)
		if err != nil {
			return time.Time{}, fmt.Errorf("%s has a bucket %q", k.part(part), b)
		}
		first, err := client.ZRangeWithScores(ctx, k.bucket(part, number), 0, 0).Result()
		if err != nil {
			return time.Time{}, err
		}
		if len(first) > 0 {
			return time.UnixMilli(number*bucketMS + int64(first[0].Score)), nil
		}
	}
	return time.Time{}, nil
}
