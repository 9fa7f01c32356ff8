package redisbridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/topology"
)

// ParkConfig of a [Park].
type ParkConfig struct {
	// Client is the connection to Redis. The Park does not close it. One that is
	// not of NewClient must not repeat commands by itself (MaxRetries -1), or
	// errors say less than the truth. Required.
	Client redis.UniversalClient
	// Topology must be the bridges' own. Required.
	Topology *topology.Topology
}

// Park puts messages into Redis, to be promoted by the bridges. It may be used
// from many goroutines, whose messages then share round trips and flushes to
// disk.
type Park struct {
	config  ParkConfig
	scripts scripts
	keys    []shardKeys
	clocks  []*serverClock // one per shard, as each may be another server's
	leads   []any          // TTLs of the lanes in ms, longest first

	mu       sync.Mutex
	pipeline redis.Scripter // nil before first use
	close    func() error
}

// pipeliner is what both a single server's and a cluster's client offer.
type pipeliner interface {
	AutoPipeline() (*redis.AutoPipeliner, error)
}

// NewPark checks c. It does no I/O.
func NewPark(c ParkConfig) (*Park, error) {
	if c.Client == nil || c.Topology == nil {
		return nil, errors.New("redisbridge: ParkConfig needs Client and Topology")
	}
	p := &Park{config: c, scripts: newScripts(), keys: allKeys(c.Topology)}
	for _, lead := range slices.Backward(c.Topology.Leads()) {
		p.leads = append(p.leads, lead.Milliseconds())
	}
	for range p.keys {
		p.clocks = append(p.clocks, newServerClock())
	}
	return p, nil
}

// Park stores m, to be delivered when w says, and returns once Redis has it:
// with appendfsync always, once it is on disk. A delay runs from the call. Due
// times are by Redis' clock; what this machine's clock shows plays no part.
//
// The error wraps ErrUnconfirmed when nobody can know whether m was stored;
// after any other error it was not. That includes the answers by which a server
// refuses for now (LOADING, READONLY, BUSY, MASTERDOWN, NOREPLICAS and their
// like), where trying again later helps, and ErrFull.
func (p *Park) Park(ctx context.Context, m *message.Message, w message.When) (message.Ticket, error) {
	return p.parkAs(ctx, m.ID, m, w)
}

// parkAs parks m under a key that may differ from its ID.
func (p *Park) parkAs(ctx context.Context, key string, m *message.Message, w message.When) (message.Ticket, error) {
	called := time.Now()
	pipeline, err := p.ready(ctx)
	if err != nil {
		return message.Ticket{}, err
	}
	shard, slot := locate(key, len(p.keys))
	k, clock := p.keys[shard], p.clocks[shard]
	_, notLaterThan, _ := clock.bounds(called) // 0 if unknown
	delay, _ := w.Relative()
	kind, ms := "in", delay.Milliseconds()
	if instant, absolute := w.Instant(); absolute {
		kind, ms = "at", instant.UnixMilli()
	}
	args := append(make([]any, 0, 7+len(p.leads)), key, kind, ms, message.AppendEnvelope(nil, m, key),
		wakeChannel(p.config.Topology), k.number, notLaterThan)
	args = append(args, p.leads...)
	answer, err := p.scripts.park.Run(ctx, pipeline, []string{k.schedule, k.state, k.slot(slot), k.envelopes}, args...).Slice()
	if err != nil {
		clock.forget()
		return message.Ticket{}, fmt.Errorf("park message %s: %w", key, classify(err))
	}
	r := reply{rest: answer}
	ticket := message.Ticket{Parking: message.Parking(r.int()), Due: time.UnixMilli(r.int())}
	clock.learn(called, time.Now(), r.int())
	return ticket, r.err
}

// ready checks on first use that Redis holds the layout the topology describes.
func (p *Park) ready(ctx context.Context) (redis.Scripter, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pipeline != nil {
		return p.pipeline, nil
	}
	if err := checkLayout(ctx, p.config.Client, p.config.Topology); err != nil {
		return nil, err
	}
	p.pipeline, p.close = p.config.Client, func() error { return nil }
	if client, ok := p.config.Client.(pipeliner); ok {
		auto, err := client.AutoPipeline()
		if err != nil {
			return nil, fmt.Errorf("redisbridge: %w", err)
		}
		p.pipeline, p.close = auto, auto.Close
	}
	return p.pipeline, nil
}

// Close ends what first use has started. Calls of Park must have returned.
func (p *Park) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.close == nil {
		return nil
	}
	return p.close()
}

// layoutVersion is the version of the keys and their contents.
const layoutVersion = "2"

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
