package redisbridge_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/delaybridge/delaybridge/redisbridge"
)

// However long the questions and the answers take, and however the clocks part
// as they may: Redis' clock is where the bounds say, or messages would be early.
func TestServerClockIsWithinItsBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		clock := redisbridge.NewServerClock()
		began := time.Now()
		serverBegan := time.UnixMicro(rapid.Int64Range(1e15, 2e15).Draw(t, "server's clock"))
		rate := 1 + rapid.Float64Range(-400e-6, 400e-6).Draw(t, "drift")
		server := func(at time.Time) time.Time {
			return serverBegan.Add(time.Duration(float64(at.Sub(began)) * rate))
		}
		now := began
		pass := func(what string, most int64) time.Time {
			now = now.Add(time.Duration(rapid.Int64Range(0, most).Draw(t, what)) * time.Microsecond)
			return now
		}
		for range rapid.IntRange(1, 30).Draw(t, "calls") {
			pass("pause", 3e6)
			if least, most, known := clock.Bounds(now); known {
				shown := server(now)
				if shown.Before(time.UnixMilli(least)) || shown.After(time.UnixMilli(most)) {
					t.Fatalf("%v is not between %v and %v", shown, time.UnixMilli(least), time.UnixMilli(most))
				}
			}
			asked := now
			read := server(pass("way there", 1e5))
			heard := pass("way back", 1e5)
			clock.Learn(asked, heard, read.UnixMicro())
			if _, _, known := clock.Bounds(now); !known {
				t.Fatal("knows nothing right after a sample")
			}
		}
		if _, _, known := clock.Bounds(now.Add(time.Minute)); known {
			t.Fatal("trusts a sample that is a minute old")
		}
		clock.Forget()
		if _, _, known := clock.Bounds(now); known {
			t.Fatal("remembers what it was told to forget")
		}
	})
}

func TestServerClockIsAsGoodAsItsBestSample(t *testing.T) {
	t.Parallel()
	clock, now := redisbridge.NewServerClock(), time.Now()
	server := time.UnixMilli(1_700_000_000_000)
	sample := func(there, back time.Duration) {
		clock.Learn(now, now.Add(there+back), server.Add(there).UnixMicro())
	}
	sample(80*time.Millisecond, 100*time.Microsecond)
	sample(100*time.Microsecond, 100*time.Microsecond)
	sample(200*time.Microsecond, 90*time.Millisecond)
	least, most, _ := clock.Bounds(now.Add(500 * time.Millisecond))
	if least < 1_700_000_000_499 || most > 1_700_000_000_501 {
		t.Errorf("between %d and %d, want within a millisecond of 1700000000500", least, most)
	}
}
