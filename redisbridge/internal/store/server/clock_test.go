package server_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/delaybridge/delaybridge/redisbridge/internal/store/server"
)

// However long the questions and the answers take, and however the clocks part
// as they may: Redis' clock is where the bounds say, or messages would be early.
func TestClockIsWithinItsBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		clock := server.NewClock()
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
				shown := server(now).Truncate(time.Millisecond)
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

func TestClockIsAsGoodAsItsBestSample(t *testing.T) {
	t.Parallel()
	clock, now := server.NewClock(), time.Now()
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

// What a good answer has told is worth less only by what the clocks may have parted since.
func TestClockForgetsSlowly(t *testing.T) {
	t.Parallel()
	clock, now := server.NewClock(), time.Now()
	server := time.UnixMilli(1_700_000_000_000)
	clock.Learn(now, now.Add(100*time.Microsecond), server.UnixMicro())
	for range 40 {
		now, server = now.Add(100*time.Millisecond), server.Add(100*time.Millisecond)
		clock.Learn(now.Add(-20*time.Millisecond), now.Add(20*time.Millisecond), server.UnixMicro())
	}
	least, most, _ := clock.Bounds(now)
	if most-least > 5 {
		t.Errorf("%d ms apart, want 2 by each in 4 s, at 500 us a second", most-least)
	}
}

// A clock that is set is believed at once.
func TestClockThatIsSet(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{-time.Hour, -5 * time.Millisecond, 5 * time.Millisecond, time.Hour} {
		clock, now := server.NewClock(), time.Now()
		server := time.UnixMilli(1_700_000_000_000)
		clock.Learn(now, now.Add(time.Millisecond), server.UnixMicro())
		server = server.Add(step)
		clock.Learn(now, now.Add(time.Millisecond), server.UnixMicro())
		least, most, _ := clock.Bounds(now.Add(time.Millisecond))
		if shown := server.UnixMilli(); least < shown-1 || most > shown+2 {
			t.Errorf("set by %v: between %d and %d, want about %d", step, least, most, shown)
		}
	}
}
