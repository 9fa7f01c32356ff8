package main

import (
	"math"
	"testing"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6*math.Max(1, math.Abs(want)) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestSolve(t *testing.T) {
	t.Parallel()
	// 2a+b+c=7, a+3b+2c=13, a+b+4c=15
	x := solve([3][4]float64{{2, 1, 1, 7}, {1, 3, 2, 13}, {1, 1, 4, 15}})
	for i, want := range []float64{1, 2, 3} {
		near(t, "solution", x[i], want)
	}
}

func TestOccupied(t *testing.T) {
	t.Parallel()
	near(t, "one ball", math.Round(occupied(1000, 1)), 1)
	near(t, "many balls", occupied(1000, 1e6), 1000)
	near(t, "as many balls as boxes", occupied(1e6, 1e6), 1e6*(1-1/math.E))
}

func TestSizeGrowsWithDemand(t *testing.T) {
	t.Parallel()
	c := costs{redis: 30, bridge: 25, broker: 70, message: 60, slot: 100, bucket: 120, queue: 14_000}
	small := c.size(demand{parked: 1e6, days: 1, rate: 1_000, body: 200, id: 26, redisGB: 32})
	if small.masters != 1 || small.shards != 4 {
		t.Errorf("a small one takes %d servers and %d shards, want 1 and the default 4", small.masters, small.shards)
	}
	near(t, "cores of the bridges", small.bridgeCores, 0.025/ceiling)
	large := c.size(demand{parked: 100e6, days: 30, rate: 50_000, body: 200, id: 26, redisGB: 32})
	// 50,000/s of 30 us are 1.5 processors, and one server uses one.
	// In less than 31 shards the hashes hold more than 100 messages each.
	if large.masters != 3 || large.shards != 31 {
		t.Errorf("a large one takes %d servers and %d shards, want 3 and 31", large.masters, large.shards)
	}
	if large.first != "a queue of the broker" || large.firstAt != 14_000 {
		t.Errorf("first saturates %s at %v/s, want the queue at 14000/s", large.first, large.firstAt)
	}
}
