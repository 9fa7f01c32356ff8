package redisbridge

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/topology"
)

// layoutVersion is the version of the keys and their contents.
const layoutVersion = "4"

// checkLayout compares what is stored under the prefix with the topology, and
// notes it down where nothing is stored yet. A message is found by its ID only
// while everybody counts the same number of shards.
func checkLayout(ctx context.Context, client redis.UniversalClient, t *topology.Topology) error {
	key := layoutKey(t)
	want := map[string]string{"version": layoutVersion, "shards": strconv.Itoa(t.Shards())}
	found, err := client.HGetAll(ctx, key).Result()
	if err != nil {
		return fmt.Errorf("redisbridge: %w", classify(err))
	}
	if len(found) < len(want) { // otherwise nothing is written, so that a bridge can start when Redis is full
		for field, value := range want {
			if err := client.HSetNX(ctx, key, field, value).Err(); err != nil {
				return fmt.Errorf("redisbridge: %w", classify(err))
			}
		}
		if found, err = client.HGetAll(ctx, key).Result(); err != nil {
			return fmt.Errorf("redisbridge: %w", classify(err))
		}
	}
	if version := found["version"]; version != layoutVersion {
		return fmt.Errorf("%w: prefix %s holds what another release of delaybridge has parked (layout %s, not %s): let that one deliver it, or choose another prefix",
			ErrConfiguration, t.Prefix(), version, layoutVersion)
	}
	for field, value := range want {
		if found[field] != value {
			return fmt.Errorf("%w: prefix %s is in use with %s %s, not %s: set it to %s, or choose another prefix",
				ErrConfiguration, t.Prefix(), field, found[field], value, found[field])
		}
	}
	return nil
}
