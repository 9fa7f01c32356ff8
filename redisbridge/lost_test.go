package redisbridge_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// rememberShard returns what puts the keys of the only shard back as they are now, as a Redis
// does that loses what it was told since.
func (b *bench) rememberShard(t *testing.T) (putBack func()) {
	t.Helper()
	return b.remember(t, b.client.TxPipelined, func() []string { return keysLike(t, b.RedisURL, "{"+b.topology.Prefix()+":0}:*") })
}

// remember returns what puts keys back as they are now, in the place of what is there then. Those of one slot can be
// put back in one transaction, beside a bridge that runs.
func (b *bench) remember(
	t *testing.T, pipelined func(context.Context, func(redis.Pipeliner) error) ([]redis.Cmder, error), keys func() []string,
) (putBack func()) {
	t.Helper()
	then := map[string]string{}
	for _, key := range keys() {
		value, err := b.client.Dump(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		then[key] = value
	}
	return func() {
		t.Helper()
		now := keys()
		if _, err := pipelined(t.Context(), func(p redis.Pipeliner) error {
			for _, key := range now {
				p.Del(t.Context(), key)
			}
			for key, value := range then {
				p.RestoreReplace(t.Context(), key, 0, value)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// A copy whose version Redis has lost is the message: the message itself was not lost.
func TestCopyOfALostRescheduleIsTheMessage(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		knowsIt bool          // Redis has the message as it was before
		later   time.Duration // to which it is rescheduled after the loss; 0 if it is not
	}{
		"known":                          {knowsIt: true},
		"known, and rescheduled again":   {knowsIt: true, later: 25 * time.Second},
		"unknown":                        {},
		"unknown, and rescheduled again": {later: 25 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBenchAt(t, topology.Config{Tiers: []time.Duration{10 * time.Second}, Lead: 10 * time.Second, Shards: 1}, servertest.ForTest(t))
			b.run(t, nil)
			const id = "m"
			lose := b.rememberShard(t)
			due := b.parkOne(t, id, message.After(10100*time.Millisecond))
			inBroker := func() bool { held, err := b.held(t, id); return err == nil && !held }
			until(t, "it is in its lane", inBroker)
			if tc.knowsIt {
				lose = b.rememberShard(t)
			}
			b.changed(t, redisbridge.OutcomeDone, 1)(b.park.Reschedule(t.Context(), id, message.After(0)))
			until(t, "it is in its queue", inBroker)
			lose()
			if tc.later > 0 {
				if tc.knowsIt {
					until(t, "it was due, by what Redis knows", func() bool { return time.Now().After(due) })
				}
				b.changed(t, redisbridge.OutcomeRecorded, 1)(b.park.Reschedule(t.Context(), id, message.After(tc.later)))
			}
			desk := b.attend(t)
			drops := 1 // the first copy
			if tc.later > 0 {
				drops = 2 // the second one is parked again
			}
			until(t, "one copy is handled, and no other", func() bool { return len(desk.times(id)) == 1 && desk.drops(id) == drops })
		})
	}
}
