package top_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/internal/health"
	"github.com/delaybridge/delaybridge/internal/top"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

func TestProblems(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*world)
		want   []string
		text   string // of the first
	}{
		{"nothing is wrong", func(*world) {}, nil, ""},
		{"messages are being published the moment they are due", func(w *world) {
			w.perLook = func(now time.Duration) { w.redis.Stats.Shards[0].OldestLate = at(now - 20*time.Millisecond) }
		}, nil, ""},
		{"something is overdue", func(w *world) {
			w.redis.Stats.Shards[1].OldestLate = at(-8 * time.Second)
		}, []string{"overdue"}, "overdue in Redis since 07:59:52"},
		{"no bridge", func(w *world) { w.redis.Stats.Bridges = nil }, []string{"no bridge"}, "no bridge is alive"},
		{"bridges of different releases", func(w *world) {
			w.redis.Stats.Bridges = append(w.redis.Stats.Bridges, redisbridge.BridgeStats{ID: "beta-ABCDEFGH", At: at(0), Version: "v1.5.0"})
		}, []string{"releases"}, "bridges of different releases: v1.4.0: 1, v1.5.0: 1"},
		{"bridges of one release", func(w *world) {
			w.redis.Stats.Bridges = append(w.redis.Stats.Bridges, redisbridge.BridgeStats{ID: "beta-ABCDEFGH", At: at(0), Version: "v1.4.0"})
		}, nil, ""},
		{"a shard's owner is gone", func(w *world) { w.redis.Stats.Shards[1].Alive = false }, []string{"no owner"}, "1 shard without a bridge that is alive: 1"},
		{"a shard changes hands", func(w *world) {
			w.perLook = func(now time.Duration) { w.redis.Stats.Shards[1].Alive = now < 10*time.Second || now > 12*time.Second }
		}, nil, ""},
		{"the inbox grows", func(w *world) {
			w.perLook = func(now time.Duration) {
				w.broker.Counts.Queues["orders.inbox"] = 1 + 100*int(now.Seconds())
			}
		}, []string{"inbox"}, "inbox grows: 2,801 wait, 100 more a second"},
		{"messages go through the inbox", func(w *world) {
			w.perLook = func(now time.Duration) { w.broker.Counts.Queues["orders.inbox"] = int(now.Seconds()) % 4 }
		}, nil, ""},
		{"nobody has bound a queue", func(w *world) {
			w.broker.Counts.Queues["orders.unrouted"] = 1200
		}, []string{"unrouted"}, "unrouted: 1,200 that no queue is bound for"},
		{"the grave first", func(w *world) {
			w.broker.Counts.Queues["orders.quarantine"] = 3
			w.redis.Stats.Bridges = nil
		}, []string{"no bridge", "quarantine"}, "no bridge is alive"},
		{"queues are missing", func(w *world) {
			delete(w.broker.Counts.Queues, "orders.inbox")
			delete(w.broker.Counts.Queues, "orders.tier.1h")
		}, []string{"missing"}, "2 queues missing"},
		{"a queue takes nothing", func(w *world) {
			w.flows.Flows.Tiers[time.Minute] = top.Flow{Messages: 40, NotTaken: 40}
		}, []string{"not taken"}, "40 due, and not taken by their queue"},
		{"a bridge reports what only it sees", func(w *world) {
			w.redis.Stats.Bridges[0].Conditions = []redisbridge.ConditionState{{Condition: string(health.RedisFull), LastsMS: 5000, Detail: "OOM"}}
		}, []string{"condition: redis_full"}, "Redis is full: nothing is parked, and the inbox grows (OOM)"},
		{"a bridge of a later release", func(w *world) {
			w.redis.Stats.Bridges[0].Conditions = []redisbridge.ConditionState{{Condition: "new"}}
		}, []string{"condition: new"}, "new"},
		{"Redis has lost what it had", func(w *world) {
			w.redis.Stats.Loss = redisbridge.Loss{At: at(-time.Minute), Bridge: "alpha-ABCDEFGH", What: "the layout"}
		}, []string{"condition: redis_lost"}, "Redis has lost parked messages (seen at 2030-01-01T07:59:00Z: the layout (bridge alpha-ABCDEFGH))"},
		{"a policy makes everything early", func(w *world) {
			w.flows.Overrides = []topology.Drift{{Kind: "queue", Name: "orders.tier.1h", Field: "message-ttl", Expected: "3600000", Found: "500", OperatorPolicy: "short"}}
			w.redis.Stats.Bridges[0].Conditions = []redisbridge.ConditionState{{Condition: string(health.Policy)}}
		}, []string{"condition: policy"}, `a policy overrides the queues' arguments: messages come early, are dropped or refused ` +
			`(operator policy "short": message-ttl 500 instead of 3600000, queues: 1; by statistics up to 10 s old)`},
		{"a queue answers nothing", func(w *world) {
			delete(w.broker.Counts.Queues, "orders.tier.1h")
			w.broker.Counts.Silent = []string{"orders.tier.1h"}
		}, []string{"silent"}, "1 queue of RabbitMQ without an answer: orders.tier.1h"},
		{"a queue takes what comes", func(w *world) {
			w.flows.Flows.Tiers[time.Minute] = top.Flow{In: 9000, Messages: 40_000, NotTaken: 900}
		}, nil, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			test.change(w)
			w.look(30 * time.Second)
			p := w.picture()
			if got := kinds(p); !slices.Equal(got, test.want) {
				t.Fatalf("problems %v, want %v", got, test.want)
			}
			if test.text != "" && p.Problems[0].Text != test.text {
				t.Errorf("it says %q, want %q", p.Problems[0].Text, test.text)
			}
		})
	}
}

// A problem is as old as it is known to be, and begins anew when it has been over.
func TestProblemsHaveAnAge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.look(10 * time.Second) // until 8 s
	bridges := w.redis.Stats.Bridges
	w.redis.Stats.Bridges = nil
	w.look(20 * time.Second) // until 26 s
	if p := w.picture(); len(p.Problems) != 1 || !p.Problems[0].Since.Equal(at(8*time.Second)) {
		t.Errorf("problems %+v, want one since 08:00:08", p.Problems)
	}
	w.redis.Stats.Bridges = bridges
	w.look(4 * time.Second)
	w.redis.Stats.Bridges = nil
	w.look(6 * time.Second)
	if p := w.picture(); len(p.Problems) != 1 || !p.Problems[0].Since.Equal(at(28*time.Second)) {
		t.Errorf("problems %+v, want one since 08:00:28", p.Problems)
	}
}

// What a source that is away would say is not known: its last picture is no problem of now.
func TestSourceAwayHidesItsOwnProblems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.redis.Stats.Bridges = nil
	w.broker.Counts.Queues["orders.unrouted"] = 1
	w.look(10 * time.Second)
	inner := errors.New("connection refused")
	w.book.Take(top.Look{Of: top.Redis, Asked: at(9 * time.Second), At: at(12 * time.Second), Err: fmt.Errorf("look: %w", inner)})
	w.now = 21 * time.Second
	p := w.picture()
	if got := kinds(p); !slices.Equal(got, []string{"away: Redis", "unrouted"}) {
		t.Fatalf("problems %v", got)
	}
	if !p.Problems[0].Since.Equal(at(9*time.Second)) || p.Problems[0].Do != "connection refused" {
		t.Errorf("the first one is %+v, want since 08:00:09: connection refused", p.Problems[0])
	}
	if !p.Redis.IsAway() || p.RabbitMQ.IsAway() || len(p.Shards) != 2 {
		t.Errorf("Redis is %+v, RabbitMQ %+v, and there are %d shards", p.Redis, p.RabbitMQ, len(p.Shards))
	}
	w.look(2 * time.Second)
	if p := w.picture(); p.Redis.IsAway() || p.Redis.Error != "" {
		t.Errorf("when it is back, Redis is %+v", p.Redis)
	}
}

// A count that is less than before was begun anew, as that of a Redis that has lost it:
// rates are not computed across that.
func TestRatesBeginAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	busy(w)
	w.look(20 * time.Second)
	if out := w.picture().Shards[0].Out; !out.Known || out.PerSecond != 80 {
		t.Errorf("%v leave a second, want 80", out)
	}
	w.redis.Stats.Shards[0].Left, w.redis.Stats.Shards[1].Left = 3, 3
	w.perLook = func(time.Duration) {}
	w.look(2 * time.Second)
	if out := w.picture().Shards[0].Out; out.Known {
		t.Errorf("%v leave a second, and nobody can know", out)
	}
	w.look(4 * time.Second)
	if out := w.picture().Shards[0].Out; !out.Known || out.PerSecond != 0 {
		t.Errorf("%v leave a second, want none", out)
	}
}
