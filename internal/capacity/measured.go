package capacity

import "math"

// Measured returns the costs on two cores with RabbitMQ 3.10 and Redis 7.0; docs/capacity.md
// says how each was measured.
func Measured() Costs {
	return Costs{
		Redis: 25, RedisIdle: 0.16, Bridge: 5, BridgeIdle: 0.13, Broker: 76, BrokerIdle: 0.49,
		Message: 102, Slot: 128, Bucket: 232, Remembered: 167,
		Queue:        7_900, // the slowest of three days
		BridgeMemory: 37e6,
		LaneIndex:    389, QueueIndex: 79, LaneLog: 876, QueueLog: 1213,
	}
}

// What RabbitMQ's documentation says of a node, in bytes and as a share.
const (
	logBytes  = 512 << 20 // the log that all quorum queues share, until it is divided among them
	logMemory = 3         // logs for which a node is to have memory
	watermark = 0.4       // of the memory, above which publishers are held up; 0.6 from 4.0 on
)

// The largest that was measured.
const (
	mostRate    = 8_000
	mostPending = 10_000_000
	mostBody    = 256
	mostLanes   = 30_000 // messages in lanes
	mostQueue   = 60_000 // messages in a consumer's queue
	mostListed  = 4_096  // bytes of a record that Redis keeps in its compact form
	mostBucket  = 128    // messages of a bucket, likewise
)

// point is a measurement, and what the model says for it over what was found: 1 where the costs
// were taken from it.
type point struct{ at, ratio float64 }

// The measurements: processors by messages per second, and memory by messages parked.
func redisPoints() []point { return []point{{500, 1}, {2_000, 0.69}, {5_000, 0.82}, {mostRate, 1}} }

func bridgePoints() []point { return []point{{500, 1}, {2_000, 1.11}, {5_000, 0.95}, {mostRate, 1}} }

func brokerPoints() []point { return []point{{500, 1}, {2_000, 0.73}, {5_000, 0.86}, {mostRate, 1}} }

func memoryPoints() []point {
	return []point{{200_000, 1}, {500_000, 0.97}, {1_000_000, 1}, {3_000_000, 0.99}, {mostPending, 1.03}}
}

// nearest returns the point that is the fewest times as large, or as small, as at.
func nearest(points []point, at float64) point {
	best := points[0]
	for _, p := range points {
		if math.Abs(math.Log(p.at/at)) < math.Abs(math.Log(best.at/at)) {
			best = p
		}
	}
	return best
}
