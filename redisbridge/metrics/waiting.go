package metrics

import (
	"context"
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/meters"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store/server"
	"github.com/delaybridge/delaybridge/topology"
)

// installation is where messages wait.
type installation struct {
	bridge     *redisbridge.Bridge
	park       *redisbridge.Park
	client     redis.UniversalClient
	topology   *topology.Topology
	quotas     map[string]redisbridge.Quota
	management *topology.Management // or nil
}

// waiting is a collector of what Redis and the broker have. All bridges of an
// installation say the same.
type waiting struct {
	failures *prometheus.CounterVec

	parked, promoting, nextDue, overdue, owned, bridges, safe *prometheus.Desc // of Redis
	memory, mostMemory                                        *prometheus.Desc // of Redis
	messages, bytes, mostMessages, mostBytes                  *prometheus.Desc // of the entries
	tier, ttl, lane, inbox, unrouted, quarantine, notTaken    *prometheus.Desc // of the broker

	mu      sync.Mutex
	sources []*source // of the first bridge of the registry
}

func newWaiting(set *meters.Set) *waiting {
	return &waiting{
		failures: set.Counter("collect_failures_total",
			"Scrapes at which a source did not answer in time, or not at all: its metrics are absent then.", "source"),
		parked:       set.Desc("parked_messages", "Messages that wait in Redis.", "shard"),
		promoting:    set.Desc("promoting_messages", "Messages that a bridge has claimed and not settled yet.", "shard"),
		nextDue:      set.Desc("next_due_timestamp_seconds", "When the next message is due that Redis knows of, by Redis' clock; absent where there is none.", "shard"),
		overdue:      set.Desc("oldest_overdue_seconds", "How long the oldest message in Redis is overdue, by Redis' clock; 0 where none is.", "shard"),
		owned:        set.Desc("shard_owned", "1 where a bridge that is alive has the shard.", "shard"),
		bridges:      set.Desc("bridges_alive", "Bridges that were heard of in the last 40 s."),
		messages:     set.Desc("entry_messages", "Messages of an entry that Redis stores, as its quota counts them.", "exchange"),
		bytes:        set.Desc("entry_bytes", "What Redis stores of an entry, as its quota counts it.", "exchange"),
		mostMessages: set.Desc("entry_quota_messages", "The most messages of an entry that Redis may store; absent without a quota.", "exchange"),
		mostBytes:    set.Desc("entry_quota_bytes", "The most that Redis may store of an entry; absent without a quota.", "exchange"),
		safe:         set.Desc("redis_setting_safe", "1 where all Redis servers have a setting on which the guarantees rest.", "setting"),
		memory:       set.Desc("redis_memory_bytes", "What the Redis server that is fullest has in use, by its used_memory."),
		mostMemory:   set.Desc("redis_maxmemory_bytes", "The most that this server may use, its maxmemory; absent where no server has one."),
		tier:         set.Desc("tier_messages", "Messages in a tier that are not due.", "tier"),
		ttl:          set.Desc("tier_ttl_seconds", "The TTL of a tier.", "tier"),
		lane:         set.Desc("lane_messages", "Messages in the lanes of all shards that are not due.", "lane"),
		inbox:        set.Desc("inbox_messages", "Messages in the inbox that no bridge has been handed."),
		unrouted:     set.Desc("unrouted_messages", "Messages that were due, and for which no queue is bound."),
		quarantine:   set.Desc("quarantine_messages", "Messages that could not be processed."),
		notTaken: set.Desc("due_not_taken_messages",
			"Messages in tiers and lanes that are due, and that the queue they lead to has not taken; by the management API, up to ten seconds late.", "queue"),
	}
}

// watch has the installation read, unless there is one.
func (w *waiting) watch(i installation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sources != nil {
		return
	}
	w.sources = []*source{
		{name: "redis", ask: func(ctx context.Context) ([]prometheus.Metric, error) { return w.askRedis(ctx, i) }},
		{name: "redis_settings", ask: func(ctx context.Context) ([]prometheus.Metric, error) { return w.askSettings(ctx, i.client) }},
		{name: "redis_memory", ask: func(ctx context.Context) ([]prometheus.Metric, error) { return w.askMemory(ctx, i.client) }},
		{name: "rabbitmq", ask: func(ctx context.Context) ([]prometheus.Metric, error) { return w.askBroker(ctx, i) }},
	}
	if i.management != nil {
		w.sources = append(w.sources, &source{name: "management", ask: func(ctx context.Context) ([]prometheus.Metric, error) {
			return w.askManagement(ctx, i)
		}})
	}
	for _, s := range w.sources {
		s.failures = w.failures.WithLabelValues(s.name)
	}
}

// Describe implements [prometheus.Collector].
func (w *waiting) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		w.parked, w.promoting, w.nextDue, w.overdue, w.owned, w.bridges, w.safe, w.memory, w.mostMemory,
		w.messages, w.bytes, w.mostMessages, w.mostBytes,
		w.tier, w.ttl, w.lane, w.inbox, w.unrouted, w.quarantine, w.notTaken,
	} {
		ch <- desc
	}
}

// Collect implements [prometheus.Collector]. It asks all sources at the same time.
func (w *waiting) Collect(ch chan<- prometheus.Metric) {
	w.mu.Lock()
	sources := w.sources
	w.mu.Unlock()
	var all sync.WaitGroup
	for _, s := range sources {
		all.Go(func() {
			for _, metric := range s.metrics() {
				ch <- metric
			}
		})
	}
	all.Wait()
}

func gauge[N int | float64](desc *prometheus.Desc, value N, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), labels...)
}

func (w *waiting) askRedis(ctx context.Context, i installation) ([]prometheus.Metric, error) {
	g, err := i.park.Stats(ctx, redisbridge.StatsOptions{})
	if err != nil {
		return nil, err
	}
	metrics := []prometheus.Metric{gauge(w.bridges, len(g.Bridges))}
	for _, s := range g.Shards {
		shard, parked, overdue := s.Name, s.TotalParked(), 0.0
		if !s.OldestLate.IsZero() {
			overdue = g.Now.Sub(s.OldestLate).Seconds()
		}
		if !s.NextDue.IsZero() {
			metrics = append(metrics, gauge(w.nextDue, float64(s.NextDue.UnixMilli())/1000, shard))
		}
		metrics = append(metrics,
			gauge(w.parked, parked, shard), gauge(w.promoting, s.Promoting, shard),
			gauge(w.overdue, max(0, overdue), shard), gauge(w.owned, meters.Truth(s.Alive), shard))
	}
	return append(metrics, w.entries(i, g.Entries)...), nil
}

func (w *waiting) entries(i installation, usage map[string]redisbridge.Usage) (metrics []prometheus.Metric) {
	for entry, u := range usage {
		exchange := i.topology.EntryExchangeOf(entry)
		metrics = append(metrics, gauge(w.messages, int(u.Messages), exchange), gauge(w.bytes, int(u.Bytes), exchange))
	}
	for entry, q := range i.quotas {
		exchange := i.topology.EntryExchangeOf(entry)
		if q.Messages > 0 {
			metrics = append(metrics, gauge(w.mostMessages, int(q.Messages), exchange))
		}
		if q.Bytes > 0 {
			metrics = append(metrics, gauge(w.mostBytes, int(q.Bytes), exchange))
		}
	}
	return metrics
}

func (w *waiting) askSettings(ctx context.Context, client redis.UniversalClient) (metrics []prometheus.Metric, err error) {
	settings, err := server.Settings(ctx, client)
	for _, s := range settings {
		metrics = append(metrics, gauge(w.safe, meters.Truth(s.Safe()), s.Name))
	}
	return metrics, err
}

func (w *waiting) askMemory(ctx context.Context, client redis.UniversalClient) ([]prometheus.Metric, error) {
	fullest, err := server.Fullest(ctx, client)
	if err != nil {
		return nil, err
	}
	metrics := []prometheus.Metric{gauge(w.memory, float64(fullest.Used))}
	if fullest.Most > 0 {
		metrics = append(metrics, gauge(w.mostMemory, float64(fullest.Most)))
	}
	return metrics, nil
}

func (w *waiting) askBroker(ctx context.Context, i installation) ([]prometheus.Metric, error) {
	counts, err := i.bridge.CountQueues(ctx)
	if err != nil {
		return nil, err
	}
	var metrics []prometheus.Metric
	for ttl, n := range counts.Tiers {
		name := wire.TTLName(ttl)
		metrics = append(metrics, gauge(w.tier, n, name), gauge(w.ttl, ttl.Seconds(), name))
	}
	for ttl, n := range counts.Lanes {
		metrics = append(metrics, gauge(w.lane, n, wire.TTLName(ttl)))
	}
	for name, desc := range map[string]*prometheus.Desc{
		i.topology.Inbox(): w.inbox, i.topology.Unrouted(): w.unrouted, i.topology.Quarantine(): w.quarantine,
	} {
		if n, there := counts.Queues[name]; there {
			metrics = append(metrics, gauge(desc, n))
		}
	}
	if len(counts.Silent) > 0 {
		return metrics, errSilent
	}
	return metrics, nil
}

var errSilent = errors.New("queues that do not answer")

func (w *waiting) askManagement(ctx context.Context, i installation) (metrics []prometheus.Metric, err error) {
	notTaken, err := i.topology.NotTaken(ctx, i.management)
	for queue, n := range notTaken {
		metrics = append(metrics, gauge(w.notTaken, n, queue))
	}
	return metrics, err
}
