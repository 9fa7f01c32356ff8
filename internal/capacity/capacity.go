// Package capacity says what an installation takes: the model of docs/capacity.md, and the costs
// that were measured for it.
package capacity

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Costs are what one message costs.
type Costs struct {
	// Redis, Bridge and Broker are microseconds of a processor per message that is parked,
	// promoted and delivered.
	Redis, Bridge, Broker float64
	// RedisIdle, BridgeIdle and BrokerIdle are processors that are busy at a rate near zero.
	RedisIdle, BridgeIdle, BrokerIdle float64
	// Message is bytes of Redis per message over body and ID, Slot per hash of envelopes, and
	// Bucket per bucket of the schedule.
	Message, Slot, Bucket float64
	// Remembered is bytes of Redis per message that was delivered, over ID and hash.
	Remembered float64
	// Queue is messages per second that leave one queue of the broker.
	Queue float64
	// BridgeMemory is bytes of a bridge at its peak.
	BridgeMemory float64
	// LaneIndex and QueueIndex are bytes of memory per message in a lane and in a consumer's queue.
	LaneIndex, QueueIndex float64
	// LaneLog and QueueLog are bytes of disk per message in these, over body and ID.
	LaneLog, QueueLog float64
}

// Demand is what an installation is to bear.
type Demand struct {
	Pending     float64       // messages that wait at once
	Within      time.Duration // in which these are due
	Rate        float64       // messages due per second, and as many parked
	Body, ID    float64       // bytes of a message
	Shards      int           // at least
	RedisMemory float64       // bytes of one server
	Lead        time.Duration // TTL of the longest lane
	Remember    time.Duration // for which Redis knows that a message was delivered
}

// The layout of a shard in Redis; see redisbridge/internal/store/lua/lib.lua.
const (
	slots         = 131072
	bucketSeconds = 2
	// perSlot is how many envelopes a hash may hold on average: Redis goes through a
	// small hash from its beginning, so the time per message grows with them.
	perSlot = 25
)

// ceiling is how busy or full a part may be: above that, what comes in at random waits.
const ceiling = 0.7

// Bytes returns the bytes that the messages of d take in Redis.
func (c Costs) Bytes(d Demand) float64 {
	remembered := d.Rate * d.Remember.Seconds()
	hashes := occupied(float64(d.Shards*slots), d.Pending+remembered)
	return d.Pending*(d.Body+d.ID+c.Message) + remembered*(d.ID+c.Remembered) + hashes*c.Slot + d.buckets()*c.Bucket
}

// buckets is how many buckets of the schedule hold something.
func (d Demand) buckets() float64 {
	return occupied(float64(d.Shards)*d.Within.Seconds()/bucketSeconds, d.Pending)
}

// occupied is how many of n boxes hold something when balls are thrown at random.
func occupied(n, balls float64) float64 { return -n * math.Expm1(-balls/n) }

// sizing is what it takes.
type sizing struct {
	bytes       float64 // of Redis
	redisCores  float64
	masters     int // Redis servers, each with a thread for commands
	shards      int
	bridgeCores float64
	brokerCores float64
	first       string  // what saturates first, of one server each and one shard
	firstAt     float64 // messages per second
}

func (c Costs) size(d Demand) sizing {
	busy := func(us, idle float64) float64 { return (d.Rate*us/1e6 + idle) / ceiling }
	s := sizing{
		redisCores: busy(c.Redis, c.RedisIdle), bridgeCores: busy(c.Bridge, c.BridgeIdle), brokerCores: busy(c.Broker, c.BrokerIdle),
	}
	s.shards = int(max(float64(d.Shards), math.Ceil(d.Rate/(ceiling*c.Queue)), math.Ceil(d.Pending/(slots*perSlot))))
	for range 8 { // more shards have more hashes and buckets, which take memory
		d.Shards = s.shards
		s.bytes = c.Bytes(d)
		s.masters = int(max(math.Ceil(s.redisCores), math.Ceil(s.bytes/(ceiling*d.RedisMemory))))
		s.shards = max(d.Shards, s.masters)
	}
	type part struct {
		name string
		rate float64
	}
	first := slices.MinFunc([]part{
		{"a queue of the broker", c.Queue},
		{"a Redis server", (1 - c.RedisIdle) * 1e6 / c.Redis},
		{"a bridge of one core", (1 - c.BridgeIdle) * 1e6 / c.Bridge},
		{"a broker of four cores", (4 - c.BrokerIdle) * 1e6 / c.Broker},
	}, func(a, b part) int { return cmp.Compare(a.rate, b.rate) })
	s.first, s.firstAt = first.name, first.rate
	return s
}
