package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"

	"github.com/delaybridge/delaybridge/topology"
)

// costs are what one message costs, as measured.
type costs struct {
	// Microseconds on a processor per message: parked, promoted, and delivered.
	redis, bridge, broker float64
	// Processors that are busy with nothing to do.
	redisIdle, bridgeIdle, brokerIdle float64
	// Bytes of Redis per message over body and ID, per hash of envelopes, and per
	// bucket of the schedule.
	message, slot, bucket float64
	// Messages per second that leave one queue of the broker.
	queue float64
}

// Keys of the costs in the figures.
func (c *costs) fields() map[string]*float64 {
	return map[string]*float64{
		"cost_redis_us": &c.redis, "cost_bridge_us": &c.bridge, "cost_broker_us": &c.broker,
		"cost_redis_idle": &c.redisIdle, "cost_bridge_idle": &c.bridgeIdle, "cost_broker_idle": &c.brokerIdle,
		"cost_bytes_message": &c.message, "cost_bytes_slot": &c.slot, "cost_bytes_bucket": &c.bucket,
		"cost_queue_per_s": &c.queue,
	}
}

// costsIn takes the costs from figures that were measured before.
func costsIn(f figures) (c costs, err error) {
	for key, value := range c.fields() {
		measured, ok := f[key]
		if !ok {
			return c, fmt.Errorf("there is no %s: make bench-scale measures it", key)
		}
		*value = measured
	}
	return c, nil
}

// demand is what an installation is to bear.
type demand struct {
	parked  float64 // messages
	days    float64 // in which they are due
	rate    float64 // due per second, and as many parked
	body    float64 // bytes
	id      float64 // bytes
	shards  int
	redisGB float64 // of memory for one server
}

// The layout of a shard in Redis; see redisbridge/internal/store/lua/lib.lua.
const (
	slots         = 131072
	bucketSeconds = 2
	// perSlot is how many envelopes a hash may hold on average: Redis goes through a
	// small hash from its beginning, so the time per message grows with them.
	perSlot = 25
)

// ceiling is how busy a part may be: above that, what comes in at random waits.
const ceiling = 0.7

// bytes is what the parked messages take in Redis.
func (c *costs) bytes(d demand) float64 {
	hashes := occupied(float64(d.shards*slots), d.parked)
	buckets := occupied(float64(d.shards)*d.days*24*3600/bucketSeconds, d.parked)
	return d.parked*(d.body+d.id+c.message) + hashes*c.slot + buckets*c.bucket
}

// occupied is how many of n boxes hold something when balls are thrown at random.
func occupied(n, balls float64) float64 { return n * (1 - math.Exp(-balls/n)) }

// sizing is what it takes.
type sizing struct {
	gigabytes     float64
	masters       int // Redis servers, each with a thread for commands
	shards        int
	bridgeCores   float64
	brokerCores   float64
	first         string  // what saturates first, of one server each and one shard
	firstAt       float64 // messages per second
	brokerReplica float64 // what a copy on two more nodes adds at most
}

func (c *costs) size(d demand) sizing {
	busy := func(us, idle float64) float64 { return (d.rate*us/1e6 + idle) / ceiling }
	s := sizing{bridgeCores: busy(c.bridge, c.bridgeIdle), brokerCores: busy(c.broker, c.brokerIdle)}
	s.shards = int(max(math.Ceil(d.rate/(ceiling*c.queue)), math.Ceil(d.parked/(slots*perSlot))))
	for range 8 { // more shards have more hashes and buckets, which take memory
		d.shards = max(s.shards, topology.Defaults().Shards)
		s.gigabytes = c.bytes(d) / 1e9
		s.masters = int(max(math.Ceil(busy(c.redis, c.redisIdle)), math.Ceil(s.gigabytes/(ceiling*d.redisGB))))
		s.shards = max(d.shards, s.masters)
	}
	s.brokerReplica = 2 * s.brokerCores
	parts := []struct {
		name string
		rate float64
	}{
		{"a queue of the broker", c.queue},
		{"a Redis server", (1 - c.redisIdle) * 1e6 / c.redis},
		{"a bridge of one core", (1 - c.bridgeIdle) * 1e6 / c.bridge},
		{"a broker of four cores", (4 - c.brokerIdle) * 1e6 / c.broker},
	}
	first := slices.MinFunc(parts, func(a, b struct {
		name string
		rate float64
	}) int {
		return cmp.Compare(a.rate, b.rate)
	})
	s.first, s.firstAt = first.name, first.rate
	return s
}

func (s sizing) print(out io.Writer, d demand) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "parked\t%.0f of %.0f bytes, IDs of %.0f, due within %.0f days\n", d.parked, d.body, d.id, d.days)
	fmt.Fprintf(table, "due\t%.0f/s, and as many parked\n", d.rate)
	fmt.Fprintf(table, "Redis\t%d servers of %.0f GB, each with a replica; %.1f GB of messages\n", s.masters, d.redisGB, s.gigabytes)
	fmt.Fprintf(table, "shards\t%d\n", s.shards)
	fmt.Fprintf(table, "bridges\t%.1f cores\n", s.bridgeCores)
	fmt.Fprintf(table, "brokers\t%.1f cores that lead, up to %.1f more that follow\n", s.brokerCores, s.brokerReplica)
	fmt.Fprintf(table, "saturates first\t%s, at %.0f/s\n", s.first, s.firstAt)
	_ = table.Flush()
}
