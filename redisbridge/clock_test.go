package redisbridge_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/delaybridge/delaybridge/redisbridge"
)

// However long the questions and the answers take: the clock is never behind
// Redis', or messages would be early; and it knows when it knows nothing.
func TestServerClockIsNeverBehind(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		clock := redisbridge.NewServerClock()
		began := time.Now()
		serverBegan := time.UnixMicro(rapid.Int64Range(1e15, 2e15).Draw(t, "server's clock"))
		server := func(at time.Time) time.Time { return serverBegan.Add(at.Sub(began)) }
		now := began
		for range rapid.IntRange(1, 30).Draw(t, "calls") {
			now = now.Add(time.Duration(rapid.Int64Range(0, 3e6).Draw(t, "pause")) * time.Microsecond)
			if ms := clock.At(now); ms != 0 && time.UnixMilli(ms).Before(server(now)) {
				t.Fatalf("said %v when it was %v already", time.UnixMilli(ms), server(now))
			}
			wait := time.Duration(rapid.Int64Range(0, 1e5).Draw(t, "wait")) * time.Microsecond
			clock.Learn(now, server(now.Add(wait)).UnixMicro())
			if ms := clock.At(now); ms == 0 {
				t.Fatal("knows nothing right after a sample")
			}
		}
		if clock.At(now.Add(time.Minute)) != 0 {
			t.Fatal("trusts a sample that is a minute old")
		}
		clock.Forget()
		if clock.At(now) != 0 {
			t.Fatal("remembers what it was told to forget")
		}
	})
}

func TestServerClockIsAsGoodAsItsBestSample(t *testing.T) {
	t.Parallel()
	clock, now := redisbridge.NewServerClock(), time.Now()
	server := time.UnixMilli(1_700_000_000_000)
	clock.Learn(now, server.Add(80*time.Millisecond).UnixMicro()) // waited for 80 ms
	clock.Learn(now, server.Add(200*time.Microsecond).UnixMicro())
	clock.Learn(now, server.Add(50*time.Millisecond).UnixMicro())
	if got := clock.At(now.Add(time.Second)); got != 1_700_000_001_001 {
		t.Errorf("got %d, want 1700000001001", got)
	}
}
