package store

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Audit is redisbridge.Park.Audit.
func (s *Store) Audit(ctx context.Context) (faults, miscounts []string, err error) {
	for shard := range s.keys {
		one, err := s.auditShard(ctx, s.keys[shard])
		if err != nil {
			return nil, nil, fmt.Errorf("audit shard %d: %w", shard, Classify(err))
		}
		faults, miscounts = append(faults, one.faults...), append(miscounts, one.miscounts...)
	}
	return faults, miscounts, nil
}

// audit is what one shard has.
type audit struct {
	records   map[string]Record
	kept      map[string]bool
	scheduled map[string]bool // or claimed
	faults    []string
	miscounts []string
}

func (a *audit) fault(format string, args ...any) {
	a.faults = append(a.faults, fmt.Sprintf(format, args...))
}

func (s *Store) auditShard(ctx context.Context, k shardKeys) (*audit, error) {
	a := &audit{records: map[string]Record{}, kept: map[string]bool{}, scheduled: map[string]bool{}}
	if err := a.readRecords(ctx, s.config.Client, k); err != nil {
		return nil, err
	}
	if err := a.readSchedule(ctx, s.config.Client, k); err != nil {
		return nil, err
	}
	for set, into := range map[string]map[string]bool{k.kept: a.kept, k.claimed: a.scheduled} {
		keys, err := s.config.Client.ZRange(ctx, set, 0, -1).Result()
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			into[key] = true
		}
	}
	for key := range a.kept {
		if _, there := a.records[key]; !there {
			a.fault("message %q is kept without a record: the next one with that ID would be forgotten", idOf(key))
		}
	}
	for key, r := range a.records {
		switch {
		case a.kept[key]: // done with, even if it is cut off
		case !r.Whole():
			a.fault("message %q: its record is cut off", idOf(key))
		case (r.State() == Waiting || r.Unsettled()) && !a.scheduled[key]:
			a.fault("message %q is to be promoted, but is neither scheduled nor claimed nor kept: it would never be delivered", idOf(key))
		case r.State() != Waiting && !r.Unsettled():
			a.fault("message %q is no longer waiting and not kept: its record would never go", idOf(key))
		}
	}
	return a, a.weigh(ctx, s.config.Client, k)
}

// weigh compares what is said to be stored of each entry with what is.
func (a *audit) weigh(ctx context.Context, client redis.UniversalClient, k shardKeys) error {
	said, err := client.HGetAll(ctx, k.usage).Result()
	if err != nil {
		return err
	}
	is := map[string]int64{}
	for key, r := range a.records {
		is["bytes:"+entryOf(key)] += int64(len(key) + len(r))
		if r = r.mended(); r.State() == Waiting || r.Unsettled() {
			is["messages:"+entryOf(key)]++
		}
	}
	for field := range said {
		is[field] += 0
	}
	for field, n := range is {
		if said[field] != strconv.FormatInt(n, 10) {
			a.miscounts = append(a.miscounts, fmt.Sprintf("%s: %s is %d, and is said to be %q", k.usage, field, n, said[field]))
		}
	}
	return nil
}

func (a *audit) readRecords(ctx context.Context, client redis.UniversalClient, k shardKeys) error {
	var mu sync.Mutex
	read := func(ctx context.Context, node redis.Cmdable) error {
		for cursor := uint64(0); ; {
			keys, next, err := node.Scan(ctx, cursor, strings.NewReplacer("[", `\[`, "*", `\*`, "?", `\?`).Replace(k.envelopes)+":*", 1000).Result()
			if err != nil {
				return err
			}
			for _, key := range keys {
				stored, err := client.HGetAll(ctx, key).Result()
				if err != nil {
					return err
				}
				mu.Lock()
				for id, r := range stored {
					if key != k.envelopes+":others" {
						a.records[id] = Record(r)
					}
				}
				mu.Unlock()
			}
			if cursor = next; cursor == 0 {
				return nil
			}
		}
	}
	if cluster, ok := client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return read(ctx, node) })
	}
	return read(ctx, client)
}

func (a *audit) readSchedule(ctx context.Context, client redis.UniversalClient, k shardKeys) error {
	parts, err := client.SMembers(ctx, k.schedule).Result()
	if err != nil {
		return err
	}
	counts, err := client.HGetAll(ctx, k.counts()).Result()
	if err != nil {
		return err
	}
	for _, part := range parts {
		buckets, err := client.ZRange(ctx, k.part(part), 0, -1).Result()
		if err != nil {
			return err
		}
		n := 0
		for _, bucket := range buckets {
			number, err := strconv.ParseInt(bucket, 10, 64)
			if err != nil {
				return err
			}
			entries, err := client.ZRangeWithScores(ctx, k.bucket(part, number), 0, -1).Result()
			if err != nil {
				return err
			}
			n += len(entries)
			for _, e := range entries {
				key, _ := e.Member.(string)
				a.entry(part, number*bucketMS+int64(math.Floor(e.Score)), key)
			}
		}
		if counts[part] != strconv.Itoa(n) {
			a.miscounts = append(a.miscounts, fmt.Sprintf("part %s of the schedule has %d entries, and is said to have %q", part, n, counts[part]))
		}
	}
	return nil
}

// entry takes an entry of the schedule for that of a message, unless a claim would skip it.
func (a *audit) entry(part string, at int64, key string) {
	r, there := a.records[key]
	if lead, err := strconv.ParseInt(part, 10, 64); there && err == nil && r.Whole() && (lead == 0 || (r.Due()-lead)/bucketMS == at/bucketMS) {
		a.scheduled[key] = true
	}
}
