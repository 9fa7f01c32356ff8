package capacity

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/topology"
)

const day = 24 * time.Hour

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6*math.Max(1, math.Abs(want)) {
		t.Errorf("%s: got %v, want %v", what, got, want)
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
	c := Costs{Redis: 30, Bridge: 25, Broker: 70, Message: 60, Slot: 100, Bucket: 120, Queue: 14_000}
	small := c.size(Demand{Pending: 1e6, Within: day, Rate: 1_000, Body: 200, ID: 26, RedisMemory: 32e9, Shards: 4})
	if small.masters != 1 || small.shards != 4 {
		t.Errorf("a small one takes %d servers and %d shards, want 1 and the default 4", small.masters, small.shards)
	}
	near(t, "cores of the bridges", small.bridgeCores, 0.025/ceiling)
	large := c.size(Demand{Pending: 100e6, Within: 30 * day, Rate: 50_000, Body: 200, ID: 26, RedisMemory: 32e9, Shards: 4})
	// 50,000/s of 30 us are 1.5 processors, and one server uses one.
	// In less than 31 shards the hashes hold more than 100 messages each.
	if large.masters != 3 || large.shards != 31 {
		t.Errorf("a large one takes %d servers and %d shards, want 3 and 31", large.masters, large.shards)
	}
	if large.first != "a queue of the broker" || large.firstAt != 14_000 {
		t.Errorf("first saturates %s at %v/s, want the queue at 14000/s", large.first, large.firstAt)
	}
}

// What is remembered takes its place, also where little is pending.
func TestRememberedTakesMemory(t *testing.T) {
	t.Parallel()
	d := Demand{Pending: 1e6, Within: day, Rate: 5_000, Body: 200, ID: 26, Shards: 4}
	without := Measured().Bytes(d)
	d.Remember = 10 * time.Minute
	if got := (Measured().Bytes(d) - without) / 3e6; got < 26+167 || got > 26+167+128 {
		t.Errorf("each of the 3 million remembered takes %.0f bytes", got)
	}
}

// The model meets what was measured of ten million: 104 bytes over body and ID.
func TestTenMillionMeasured(t *testing.T) {
	t.Parallel()
	d := Demand{Pending: mostPending, Within: day, Body: 200, ID: 26, Shards: 4}
	if got, want := Measured().Bytes(d)/d.Pending/(226+104), nearest(memoryPoints(), d.Pending).ratio; math.Abs(got-want) > 0.005 {
		t.Errorf("the model says %.3f of what was found; the table has %.2f", got, want)
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	for at, want := range map[float64]float64{0.1: 500, 900: 500, 1_100: 2_000, 3_000: 2_000, 3_500: 5_000, 1e9: mostRate} {
		if got := nearest(redisPoints(), at).at; got != want {
			t.Errorf("%v: got %v, want %v", at, got, want)
		}
	}
}

func TestMostShardsIsTheTopologys(t *testing.T) {
	t.Parallel()
	if _, err := topology.New(topology.Config{Shards: mostShards}); err != nil {
		t.Error(err)
	}
	if _, err := topology.New(topology.Config{Shards: mostShards + 1}); err == nil {
		t.Errorf("the topology takes %d shards", mostShards+1)
	}
}

// A figure warns where the demand is far from what was measured, and only there.
func TestWarnings(t *testing.T) {
	t.Parallel()
	measured := Demand{Pending: 3e6, Within: day, Rate: 10, Body: 256, ID: 26, RedisMemory: 32e9, Shards: 4, Lead: time.Minute}
	for _, c := range []struct {
		key, want string
		change    func(*Demand)
	}{
		{"redis_memory_bytes", "50,000,000 messages are 5 times", func(d *Demand) { d.Pending = 50e6 }},
		{"redis_memory_bytes", "more for messages of over 4,096 bytes", func(d *Demand) { d.Body = 5_000 }},
		{"redis_memory_bytes", "more than 128 messages are due in 2 s", func(d *Demand) { d.Within = time.Hour }},
		{"redis_processors", "beside ten million messages", func(d *Demand) { d.Pending = 5e6 }},
		{"shards", "64 at most: divide the messages among 2 prefixes", func(d *Demand) { d.Pending = 300e6 }},
		{"bridge_processors", "40,000 messages a second are 5 times", func(d *Demand) { d.Rate = 40_000 }},
		{"bridge_memory_bytes", "2,560 bytes of body are 10 times", func(d *Demand) { d.Body = 2_560 }},
		{"rabbitmq_processors", "2,560 bytes of body are 10 times", func(d *Demand) { d.Body = 2_560 }},
		{"lanes_messages", "152,048 messages are 5 times", func(d *Demand) { d.Rate = 2_500 }},
		{"hour_messages", "360,000 messages are 6 times", func(d *Demand) { d.Rate = 100 }},
	} {
		d := measured
		c.change(&d)
		for _, f := range Measured().Figures(d) {
			if f.Key == c.key && !strings.Contains(f.Warning, c.want) {
				t.Errorf("%s: got %q, want %q", c.key, f.Warning, c.want)
			}
		}
	}
	for _, f := range Measured().Figures(measured) {
		if f.Warning != "" {
			t.Errorf("%s warns beside what was measured: %s", f.Key, f.Warning)
		}
	}
}

// Each key is there once, and has a value, words and what it rests on.
func TestFigures(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, f := range Measured().Figures(Demand{Pending: 1, Within: day, Rate: 0.1, Body: 1, ID: 1, RedisMemory: 32e9, Shards: 4, Lead: time.Minute}) {
		if seen[f.Key] || f.What == "" || f.Text == "" || f.RestsOn == "" || f.Value <= 0 {
			t.Errorf("%+v", f)
		}
		seen[f.Key] = true
	}
}
