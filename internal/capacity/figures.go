package capacity

import (
	"fmt"
	"math"
	"strings"

	"github.com/dustin/go-humanize"
)

// Figure is something to order, or what such a thing follows from.
type Figure struct {
	Key     string  `json:"key"`               // ends in the unit, where that is not a number of what it names
	What    string  `json:"what"`              // the key in words
	Value   float64 `json:"value"`             // in that unit
	Text    string  `json:"text"`              // the value as people read it
	RestsOn string  `json:"rests_on"`          // the nearest measurement, or that there is none
	Warning string  `json:"warning,omitempty"` // why it may be wrong
}

const (
	bridges     = 2 // so that one may die
	nodes       = 3 // of RabbitMQ, so that one may die
	mostShards  = 64
	inInbox     = 1_024 // messages of the inbox that a bridge has at a time
	aofRewrites = 3     // times its memory that Redis' file takes while it is rewritten
	standstill  = 3_600 // seconds for which a consumer's queue stands still
	perKept     = 2     // times what waits in a lane that its log keeps
)

// Figures returns what d takes, in the order in which it is read.
func (c Costs) Figures(d Demand) []Figure {
	s := c.size(d)
	d.Shards = s.shards
	inLanes := min(d.Pending, d.Rate*d.Lead.Seconds()) + bridges*inInbox
	lanesMemory, lanesDisk := inLanes*c.LaneIndex, inLanes*(d.Body+d.ID+c.LaneLog)*perKept
	inQueue := d.Rate * standstill
	queueMemory, queueDisk := inQueue*c.QueueIndex, inQueue*(d.Body+d.ID+c.QueueLog)
	body := far(d.Body, "bytes of body", mostBody)
	load := joined(far(d.Rate, "messages a second", mostRate), body)
	decides := "memory, at 70 % of it"
	if s.redisCores > s.bytes/(ceiling*d.RedisMemory) {
		decides = "processors, at 70 % of one each"
	}
	servers := count("redis_servers", "Redis servers", float64(s.masters), decides)
	servers.Text += fmt.Sprintf(" of %s, each with a replica", bytesText(d.RedisMemory))
	first := count("first_per_s", "saturates first", s.firstAt, "what a message costs each part")
	first.Text += "/s: " + s.first
	return []Figure{
		servers,
		bytes("redis_memory_bytes", "Redis memory of messages", s.bytes, nearest(memoryPoints(), d.Pending).says("pending")).but(d.memoryWarning()),
		bytes("redis_disk_bytes", "Redis disk", aofRewrites*s.bytes, "not measured: 3 times the memory, while the file is rewritten"),
		cores("redis_processors", "Redis processors", s.redisCores, nearest(redisPoints(), d.Rate).says("a second")).but(load, d.crowdWarning()),
		count("shards", "shards", float64(s.shards), "10,000,000 pending: 19 to a hash; 25 at most").but(shardsWarning(s.shards)),
		count("bridges", "bridges", bridges, "one may die"),
		cores("bridge_processors", "bridge processors", s.bridgeCores, nearest(bridgePoints(), d.Rate).says("a second")).but(load),
		bytes("bridge_memory_bytes", "memory of a bridge", c.BridgeMemory/ceiling, "1,000,000 due at once: "+bytesText(c.BridgeMemory)).but(body),
		count("rabbitmq_nodes", "RabbitMQ nodes", nodes, "one may die"),
		cores("rabbitmq_processors", "RabbitMQ processors that lead", s.brokerCores, nearest(brokerPoints(), d.Rate).says("a second")).but(load),
		cores("rabbitmq_follower_processors", "RabbitMQ processors that follow", (nodes-1)*s.brokerCores, "not measured: as much again on each other node, at most"),
		bytes("rabbitmq_memory_bytes", "memory of a RabbitMQ node", logMemory*logBytes+(lanesMemory+queueMemory)/watermark, "not measured: RabbitMQ's advice, and the queues below at 40 %"),
		bytes("rabbitmq_disk_bytes", "disk of a RabbitMQ node", (2*logBytes+lanesDisk+queueDisk)/ceiling, "not measured: two logs, and the queues below, at 70 %"),
		count("lanes_messages", "lanes and inbox, messages", inLanes, "the rate, for as long as the longest lane").but(far(inLanes, "messages", mostLanes)),
		bytes("lanes_memory_bytes", "lanes and inbox, memory", lanesMemory, "30,000 in lanes: "+countText(c.LaneIndex)+" bytes each"),
		bytes("lanes_disk_bytes", "lanes and inbox, disk", lanesDisk, "20,000 in lanes: "+countText(c.LaneLog)+" bytes over body and ID; not measured: twice"),
		count("hour_messages", "1 h without consumer, messages", inQueue, "the rate, for an hour").but(far(inQueue, "messages", mostQueue)),
		bytes("hour_memory_bytes", "1 h without consumer, memory", queueMemory, "60,000 in a queue: "+countText(c.QueueIndex)+" bytes each"),
		bytes("hour_disk_bytes", "1 h without consumer, disk", queueDisk, "20,000 in a queue: "+countText(c.QueueLog)+" bytes over body and ID"),
		count("consumer_queues", "queues of consumers", math.Ceil(d.Rate/(ceiling*c.Queue)), "100,000 drained: "+countText(c.Queue)+" a second, at 70 % of it"),
		first,
	}
}

func count(key, what string, n float64, restsOn string) Figure {
	return Figure{Key: key, What: what, Value: math.Round(n), Text: countText(n), RestsOn: restsOn}
}

func bytes(key, what string, n float64, restsOn string) Figure {
	return Figure{Key: key, What: what, Value: math.Round(n), Text: bytesText(n), RestsOn: restsOn}
}

func cores(key, what string, n float64, restsOn string) Figure {
	return Figure{Key: key, What: what, Value: math.Round(n*100) / 100, Text: fmt.Sprintf("%.1f", n), RestsOn: restsOn}
}

// but adds the warnings that say something.
func (f Figure) but(warnings ...string) Figure {
	f.Warning = joined(warnings...)
	return f
}

func joined(warnings ...string) string {
	var said []string
	for _, w := range warnings {
		if w != "" {
			said = append(said, w)
		}
	}
	return strings.Join(said, "; ")
}

func (p point) says(unit string) string {
	if p.ratio == 1 {
		return countText(p.at) + " " + unit + "; its costs are from there"
	}
	return fmt.Sprintf("%s %s; predicted / found: %.2f", countText(p.at), unit, p.ratio)
}

// far warns of five times what was measured, and more.
func far(value float64, unit string, most float64) string {
	if value < 5*most {
		return ""
	}
	return fmt.Sprintf("%s %s are %s times the most that was measured", countText(value), unit, countText(value/most))
}

func (d Demand) memoryWarning() string {
	var large, burst string
	if d.Body+d.ID > mostListed {
		large = "Redis takes more for messages of over 4,096 bytes; that was not measured"
	}
	if d.Pending/d.buckets() > mostBucket {
		burst = "more than 128 messages are due in 2 s of a shard: Redis takes some 80 bytes more for each"
	}
	return joined(far(d.Pending, "messages", mostPending), large, burst)
}

func (d Demand) crowdWarning() string {
	if d.Pending < mostPending/2 {
		return ""
	}
	return "beside ten million messages, parking took Redis 1.5 to 2.5 times as long, and promoting 1.1 to 1.3 times"
}

func shardsWarning(shards int) string {
	if shards <= mostShards {
		return ""
	}
	return fmt.Sprintf("an installation has %d at most: divide the messages among %d prefixes", mostShards, (shards+mostShards-1)/mostShards)
}

func countText(n float64) string { return humanize.Comma(int64(math.Round(n))) }

func bytesText(n float64) string { return humanize.Bytes(uint64(n)) }
